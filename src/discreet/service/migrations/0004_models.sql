-- The latest model of personal sets: made of releases, and public. seq, chain: of the release it came with.
CREATE TABLE model (
  experiment BIGINT PRIMARY KEY REFERENCES experiment,
  seq BIGINT NOT NULL,
  chain {bytes} NOT NULL,
  body {bytes} NOT NULL
);
