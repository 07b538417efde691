-- Whom places of open hands were served to: marks one after the other, from a place on. They are counted, and
-- deleted, when the hand is closed. named: how many places of a hand that is written down of; uncounted: offsets
-- of places of people who had been counted often enough.
CREATE TABLE served_to (
  experiment BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  place BIGINT NOT NULL,
  marks {bytes} NOT NULL,
  PRIMARY KEY (experiment, epoch, place)
){clustered};
ALTER TABLE hand ADD COLUMN named BIGINT NOT NULL DEFAULT 0;
ALTER TABLE hand ADD COLUMN uncounted TEXT NOT NULL DEFAULT '';
