-- The period in which a population's store has gone back in time: nothing about its people begins in it.
ALTER TABLE population ADD COLUMN frozen TEXT NOT NULL DEFAULT '';
