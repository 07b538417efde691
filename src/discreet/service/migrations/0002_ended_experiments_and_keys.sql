-- used: decisions of this epoch from which something was learned; what was released before this migration is not
-- known, so that nothing is given back. resumes: whether it goes on by itself once it is no longer frozen.
ALTER TABLE experiment ADD COLUMN used BIGINT NOT NULL DEFAULT 0;
UPDATE experiment SET used = 1;
ALTER TABLE experiment ADD COLUMN resumes INTEGER NOT NULL DEFAULT 1;
-- void: given back, as nothing was released for it. Rows stay, so that no version is written twice.
ALTER TABLE charge ADD COLUMN void INTEGER NOT NULL DEFAULT 0;
ALTER TABLE api_key ADD COLUMN expires DOUBLE PRECISION;
ALTER TABLE api_key ADD COLUMN last_used DOUBLE PRECISION;
