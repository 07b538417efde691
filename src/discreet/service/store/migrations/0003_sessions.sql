-- Sessions of pages that were ended before their time: no process takes their cookies.
CREATE TABLE ended_session (
  number TEXT PRIMARY KEY,
  until BIGINT NOT NULL
);
