-- Events of the facade (docs/service/personalizer.md) under ids that their applications chose, or whose showing
-- is still to be told: a keyed hash of the id, the decision it stands for, and the answer, until it is folded.
CREATE TABLE event (
  experiment BIGINT NOT NULL,
  id {bytes} NOT NULL,
  epoch BIGINT NOT NULL,
  place BIGINT NOT NULL,
  altered INTEGER NOT NULL,
  mark {bytes} NOT NULL,
  active INTEGER NOT NULL,
  answer TEXT NOT NULL,
  PRIMARY KEY (experiment, id)
){clustered};
CREATE INDEX event_place ON event (experiment, epoch, place);
