-- Where releases of an experiment are sent. seq: the last release that was taken there; failures in a row, and
-- when it is tried again. Secrets are not here: they follow from the file of secrets.
CREATE TABLE webhook (
  id TEXT PRIMARY KEY,
  experiment BIGINT NOT NULL REFERENCES experiment,
  url TEXT NOT NULL,
  created DOUBLE PRECISION NOT NULL,
  seq BIGINT NOT NULL,
  failures BIGINT NOT NULL DEFAULT 0,
  next_try DOUBLE PRECISION NOT NULL DEFAULT 0
);
