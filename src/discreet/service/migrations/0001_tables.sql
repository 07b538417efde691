-- Types in braces are filled in by the store: {serial} numbers rows, {bytes} holds bytes, {clustered} keeps a
-- table in the order of its key where that is possible.
CREATE TABLE population (
  id {serial},
  name TEXT NOT NULL UNIQUE,
  config TEXT NOT NULL,
  terms TEXT,
  caveats TEXT NOT NULL DEFAULT '[]',
  -- the period in which its store has gone back in time: nothing about its people begins in it
  frozen TEXT NOT NULL DEFAULT ''
);
-- Periods, of all lengths, in which the store has gone back in time.
CREATE TABLE restored (
  period TEXT PRIMARY KEY
);
CREATE TABLE experiment (
  id {serial},
  population BIGINT NOT NULL REFERENCES population,
  name TEXT NOT NULL UNIQUE,
  config TEXT NOT NULL,
  status TEXT NOT NULL,
  epoch BIGINT NOT NULL,
  period TEXT NOT NULL,
  outcome_wait DOUBLE PRECISION NOT NULL,
  queues BIGINT NOT NULL,
  next_sequence BIGINT NOT NULL,
  catalogue BIGINT NOT NULL DEFAULT 0,
  seq BIGINT NOT NULL,
  chain {bytes} NOT NULL,
  created DOUBLE PRECISION NOT NULL
);
CREATE TABLE item (
  experiment BIGINT NOT NULL REFERENCES experiment,
  number BIGINT NOT NULL,
  label TEXT NOT NULL,
  retired INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (experiment, number)
);
CREATE TABLE charge (
  population BIGINT NOT NULL REFERENCES population,
  version BIGINT NOT NULL,
  experiment BIGINT NOT NULL,
  people TEXT NOT NULL,
  label TEXT NOT NULL,
  event TEXT NOT NULL,
  disjoint INTEGER NOT NULL,
  count TEXT NOT NULL,
  owner TEXT,
  PRIMARY KEY (population, version)
);
-- served: how many decisions are written down, with whom they were for; outcomes of these are taken.
-- uncounted: offsets of decisions that are left out: of people who had been counted often enough, and of requests
-- that were sent again. lease: a number that was drawn when it was leased, which ids of its decisions name.
CREATE TABLE block (
  experiment BIGINT NOT NULL REFERENCES experiment,
  epoch BIGINT NOT NULL,
  first BIGINT NOT NULL,
  count BIGINT NOT NULL,
  body {bytes} NOT NULL,
  chain {bytes} NOT NULL,
  state INTEGER NOT NULL,
  served BIGINT NOT NULL,
  altered TEXT NOT NULL DEFAULT '',
  segment TEXT NOT NULL DEFAULT '',
  uncounted TEXT NOT NULL DEFAULT '',
  closed_at DOUBLE PRECISION,
  owner TEXT,
  lease BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (experiment, epoch, first)
);
CREATE INDEX block_state ON block (experiment, state);
CREATE TABLE outcome (
  experiment BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  sequence BIGINT NOT NULL,
  altered INTEGER NOT NULL,
  body {bytes},
  pseudonym {bytes},
  PRIMARY KEY (experiment, epoch, sequence)
){clustered};
CREATE TABLE visit (
  population BIGINT NOT NULL,
  period TEXT NOT NULL,
  pseudonym {bytes} NOT NULL,
  times BIGINT NOT NULL,
  PRIMARY KEY (population, period, pseudonym)
){clustered};
-- People of whom nothing more is learned in a period. They are counted as before.
CREATE TABLE erased (
  population BIGINT NOT NULL,
  period TEXT NOT NULL,
  pseudonym {bytes} NOT NULL,
  PRIMARY KEY (population, period, pseudonym)
){clustered};
-- Requests that may be sent again, by a keyed hash of what they are known by: the decision that was made, and
-- the answer. active: whether what was decided was shown, as far as that is told (docs/service/personalizer.md).
CREATE TABLE request (
  experiment BIGINT NOT NULL,
  id {bytes} NOT NULL,
  epoch BIGINT NOT NULL,
  sequence BIGINT NOT NULL,
  altered INTEGER NOT NULL,
  pseudonym {bytes} NOT NULL,
  active INTEGER NOT NULL,
  answer TEXT NOT NULL,
  at DOUBLE PRECISION NOT NULL,
  PRIMARY KEY (experiment, id)
){clustered};
CREATE INDEX request_sequence ON request (experiment, epoch, sequence);
CREATE INDEX request_at ON request (at);
CREATE TABLE release (
  experiment BIGINT NOT NULL REFERENCES experiment,
  seq BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  segment TEXT NOT NULL DEFAULT '',
  at DOUBLE PRECISION NOT NULL,
  payload TEXT NOT NULL,
  chain {bytes} NOT NULL,
  PRIMARY KEY (experiment, seq)
);
CREATE TABLE private_state (
  experiment BIGINT NOT NULL REFERENCES experiment,
  segment TEXT NOT NULL,
  seq BIGINT NOT NULL,
  body {bytes} NOT NULL,
  PRIMARY KEY (experiment, segment)
);
CREATE TABLE lease (
  experiment BIGINT PRIMARY KEY REFERENCES experiment,
  holder TEXT NOT NULL,
  fence BIGINT NOT NULL
);
CREATE TABLE process (
  name TEXT PRIMARY KEY,
  until DOUBLE PRECISION NOT NULL
);
CREATE TABLE api_key (
  id TEXT PRIMARY KEY,
  sha256 {bytes} NOT NULL,
  name TEXT NOT NULL,
  role TEXT NOT NULL,
  experiments TEXT,
  created DOUBLE PRECISION NOT NULL,
  revoked DOUBLE PRECISION
);
CREATE TABLE audit (
  id {serial},
  at DOUBLE PRECISION NOT NULL,
  api_key TEXT NOT NULL,
  action TEXT NOT NULL
);
-- Sessions of pages that were ended before their time: no process takes their cookies.
CREATE TABLE ended_session (
  number TEXT PRIMARY KEY,
  until BIGINT NOT NULL
);
