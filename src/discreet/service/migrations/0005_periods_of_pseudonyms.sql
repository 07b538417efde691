-- forgot: the period in which pseudonyms of earlier ones were dropped last; nothing goes on in an earlier one.
ALTER TABLE population ADD COLUMN forgot TEXT NOT NULL DEFAULT '';
