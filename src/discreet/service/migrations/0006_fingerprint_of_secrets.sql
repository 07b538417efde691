-- A keyed hash by which a process tells whether it has the secrets with which people are counted here.
CREATE TABLE secrets (
  number INTEGER PRIMARY KEY,
  fingerprint {bytes} NOT NULL
);
