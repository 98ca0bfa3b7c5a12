-- The statements of the eleven revisions that were never part of a release, and the rows that the
-- last of them had of `append_stories`. One statement a line, as SQLite has it.
-- revision 0001
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num));
CREATE TABLE projections (name TEXT NOT NULL, build BIGINT NOT NULL, version BIGINT NOT NULL, stream TEXT NOT NULL, created TEXT NOT NULL, position BIGINT NOT NULL, hash TEXT, active BOOLEAN NOT NULL, PRIMARY KEY (name, build));
CREATE UNIQUE INDEX projections_one_active ON projections (name) WHERE active;
CREATE TABLE sessions (build BIGINT NOT NULL, tenant TEXT NOT NULL, session TEXT NOT NULL, opened_position BIGINT NOT NULL, opened_at TEXT NOT NULL, blueprint TEXT NOT NULL, blueprint_version BIGINT NOT NULL, blueprint_digest TEXT NOT NULL, profile TEXT NOT NULL, attributes TEXT NOT NULL, origin_kind TEXT, origin_session TEXT, origin_sequence BIGINT, title TEXT, sought TEXT NOT NULL, turns BIGINT NOT NULL, redacted BOOLEAN NOT NULL, closed_at TEXT, last_sequence BIGINT NOT NULL, last_hash TEXT NOT NULL, last_at TEXT NOT NULL, PRIMARY KEY (build, tenant, session));
CREATE INDEX sessions_newest_first ON sessions (build, tenant, opened_position);
CREATE TABLE session_attributes (build BIGINT NOT NULL, tenant TEXT NOT NULL, session TEXT NOT NULL, name TEXT NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (build, tenant, session, name)) WITHOUT ROWID;
CREATE INDEX sessions_by_attribute ON session_attributes (build, tenant, name, digest);
CREATE TABLE turns (build BIGINT NOT NULL, tenant TEXT NOT NULL, session TEXT NOT NULL, turn BIGINT NOT NULL, status TEXT NOT NULL, text_in BIGINT, reply_in BIGINT, call TEXT, finish TEXT, cause TEXT, detail TEXT, excluded BOOLEAN NOT NULL, redacted BOOLEAN NOT NULL, submitted_at TEXT NOT NULL, released_at TEXT, settled_at TEXT, PRIMARY KEY (build, tenant, session, turn)) WITHOUT ROWID;
CREATE TABLE redactions (build BIGINT NOT NULL, tenant TEXT NOT NULL, session TEXT NOT NULL, sequence BIGINT NOT NULL, turn BIGINT NOT NULL, reason TEXT NOT NULL, rule TEXT NOT NULL, at TEXT NOT NULL, PRIMARY KEY (build, tenant, session, sequence)) WITHOUT ROWID;
CREATE TABLE phases (build BIGINT NOT NULL, tenant TEXT NOT NULL, session TEXT NOT NULL, sequence BIGINT NOT NULL, phase TEXT NOT NULL, "before" TEXT, signal TEXT, forced BOOLEAN NOT NULL, turn BIGINT, at TEXT NOT NULL, PRIMARY KEY (build, tenant, session, sequence)) WITHOUT ROWID;
CREATE TABLE calls (build BIGINT NOT NULL, tenant TEXT NOT NULL, session TEXT NOT NULL, call TEXT NOT NULL, turn BIGINT NOT NULL, sequence BIGINT NOT NULL, at TEXT NOT NULL, kind TEXT NOT NULL, model TEXT NOT NULL, supersedes TEXT, digest TEXT NOT NULL, budget BIGINT, tokens BIGINT NOT NULL, counter TEXT NOT NULL, parts BIGINT NOT NULL, attempt BIGINT, finish TEXT, characters BIGINT, PRIMARY KEY (build, tenant, session, call)) WITHOUT ROWID;
CREATE TABLE attempts (build BIGINT NOT NULL, tenant TEXT NOT NULL, session TEXT NOT NULL, turn BIGINT NOT NULL, attempt BIGINT NOT NULL, call TEXT NOT NULL, worker TEXT NOT NULL, started_at TEXT NOT NULL, ended_at TEXT, outcome TEXT, known TEXT, input_tokens BIGINT, output_tokens BIGINT, cached_tokens BIGINT, micro_dollars BIGINT, price TEXT, first_token_ms BIGINT, total_ms BIGINT, fault TEXT, PRIMARY KEY (build, tenant, session, turn, attempt)) WITHOUT ROWID;
CREATE TABLE window_parts (build BIGINT NOT NULL, tenant TEXT NOT NULL, session TEXT NOT NULL, call TEXT NOT NULL, component TEXT NOT NULL, turn BIGINT NOT NULL, place BIGINT NOT NULL, parts BIGINT NOT NULL, tokens BIGINT NOT NULL, characters BIGINT NOT NULL, turns BIGINT NOT NULL, cut_turns BIGINT NOT NULL, PRIMARY KEY (build, tenant, session, call, component)) WITHOUT ROWID;
CREATE TABLE commands (build BIGINT NOT NULL, tenant TEXT NOT NULL, session TEXT NOT NULL, "key" TEXT NOT NULL, hash TEXT NOT NULL, sequence BIGINT NOT NULL, turn BIGINT, PRIMARY KEY (build, tenant, session, "key")) WITHOUT ROWID;
CREATE TABLE quarantine (build BIGINT NOT NULL, tenant TEXT NOT NULL, session TEXT NOT NULL, position BIGINT NOT NULL, subject TEXT NOT NULL, reason TEXT, stored BLOB NOT NULL, PRIMARY KEY (build, tenant, session, position));
INSERT INTO alembic_version (version_num) VALUES ('0001');
-- revision 0002
CREATE TABLE libraries (build BIGINT NOT NULL, tenant TEXT NOT NULL, sequence BIGINT NOT NULL, stopped TEXT, PRIMARY KEY (build, tenant));
CREATE TABLE segments (build BIGINT NOT NULL, tenant TEXT NOT NULL, id BIGINT NOT NULL, variant TEXT NOT NULL, scope TEXT NOT NULL, ref TEXT, locale TEXT, content TEXT, digest TEXT NOT NULL, characters BIGINT NOT NULL, tier BIGINT NOT NULL, type TEXT NOT NULL, priority TEXT NOT NULL, active BOOLEAN NOT NULL, version BIGINT NOT NULL, edited_at TEXT NOT NULL, edited_by TEXT NOT NULL, sought TEXT NOT NULL, PRIMARY KEY (build, tenant, id, variant));
CREATE INDEX segments_by_place ON segments (build, tenant, scope, ref);
UPDATE alembic_version SET version_num='0002' WHERE alembic_version.version_num = '0001';
-- revision 0003
ALTER TABLE sessions ADD COLUMN blueprint_in BIGINT DEFAULT '1' NOT NULL;
ALTER TABLE sessions ADD COLUMN cartridge TEXT;
ALTER TABLE sessions ADD COLUMN memory TEXT;
CREATE INDEX sessions_by_blueprint ON sessions (build, tenant, blueprint);
CREATE TABLE prompts (build BIGINT NOT NULL, tenant TEXT NOT NULL, session TEXT NOT NULL, provider TEXT NOT NULL, layer TEXT NOT NULL, path TEXT NOT NULL, digest TEXT NOT NULL, pinned_in BIGINT NOT NULL, PRIMARY KEY (build, tenant, session, provider, layer)) WITHOUT ROWID;
UPDATE alembic_version SET version_num='0003' WHERE alembic_version.version_num = '0002';
-- revision 0004
ALTER TABLE attempts ADD COLUMN copied BOOLEAN DEFAULT false NOT NULL;
CREATE INDEX sessions_by_origin ON sessions (build, tenant, origin_session);
UPDATE alembic_version SET version_num='0004' WHERE alembic_version.version_num = '0003';
-- revision 0005
ALTER TABLE session_attributes ADD COLUMN given_in BIGINT DEFAULT '1' NOT NULL;
UPDATE alembic_version SET version_num='0005' WHERE alembic_version.version_num = '0004';
-- revision 0006
ALTER TABLE calls ADD COLUMN profile TEXT;
ALTER TABLE calls ADD COLUMN optimizations TEXT DEFAULT '{}' NOT NULL;
ALTER TABLE calls ADD COLUMN savings BIGINT DEFAULT '0' NOT NULL;
UPDATE alembic_version SET version_num='0006' WHERE alembic_version.version_num = '0005';
-- revision 0007
DROP TABLE redactions;
UPDATE alembic_version SET version_num='0007' WHERE alembic_version.version_num = '0006';
-- revision 0008
CREATE TABLE knowledge_index (build BIGINT NOT NULL, embedder TEXT NOT NULL, vectors TEXT NOT NULL, complete BOOLEAN NOT NULL, PRIMARY KEY (build));
CREATE TABLE knowledge_histories (build BIGINT NOT NULL, tenant TEXT NOT NULL, number BIGINT NOT NULL, sequence BIGINT NOT NULL, hash TEXT NOT NULL, replaced BIGINT NOT NULL, stopped TEXT, PRIMARY KEY (build, tenant));
CREATE TABLE knowledge_entries (build BIGINT NOT NULL, tenant TEXT NOT NULL, collection TEXT NOT NULL, entry TEXT NOT NULL, number BIGINT NOT NULL, kind TEXT NOT NULL, title TEXT NOT NULL, content TEXT, digest TEXT NOT NULL, characters BIGINT NOT NULL, source TEXT, tags TEXT NOT NULL, attributes TEXT NOT NULL, efficiency FLOAT(53), revision BIGINT NOT NULL, edited_at TEXT NOT NULL, edited_by TEXT NOT NULL, PRIMARY KEY (build, tenant, collection, entry));
CREATE UNIQUE INDEX knowledge_entries_by_number ON knowledge_entries (build, number);
CREATE TABLE retrieved_entries (build BIGINT NOT NULL, tenant TEXT NOT NULL, session TEXT NOT NULL, turn BIGINT NOT NULL, collection TEXT NOT NULL, entry TEXT NOT NULL, PRIMARY KEY (build, tenant, session, turn, collection, entry)) WITHOUT ROWID;
CREATE INDEX retrieved_entries_by_entry ON retrieved_entries (build, tenant, collection, entry);
CREATE TABLE turn_votes (build BIGINT NOT NULL, tenant TEXT NOT NULL, session TEXT NOT NULL, turn BIGINT NOT NULL, vote BIGINT NOT NULL, PRIMARY KEY (build, tenant, session, turn)) WITHOUT ROWID;
UPDATE alembic_version SET version_num='0008' WHERE alembic_version.version_num = '0007';
-- revision 0009
ALTER TABLE turns ADD COLUMN asked_by TEXT;
ALTER TABLE turns ADD COLUMN counted BOOLEAN DEFAULT true NOT NULL;
UPDATE alembic_version SET version_num='0009' WHERE alembic_version.version_num = '0008';
-- revision 0010
DROP TABLE IF EXISTS knowledge_vectors;
DROP TABLE IF EXISTS knowledge_words;
DELETE FROM projections WHERE name = 'knowledge';
DELETE FROM knowledge_entries;
DROP TABLE knowledge_index;
CREATE TABLE knowledge_index (build BIGINT NOT NULL, embedder TEXT NOT NULL, setting TEXT NOT NULL, complete BOOLEAN NOT NULL, PRIMARY KEY (build));
DROP TABLE knowledge_histories;
CREATE TABLE knowledge_histories (build BIGINT NOT NULL, tenant TEXT NOT NULL, sequence BIGINT NOT NULL, hash TEXT NOT NULL, replaced BIGINT NOT NULL, stopped TEXT, PRIMARY KEY (build, tenant));
CREATE TABLE knowledge_texts (build BIGINT NOT NULL, number BIGINT NOT NULL, tenant TEXT NOT NULL, collection TEXT NOT NULL, words BLOB NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (build, number));
CREATE INDEX knowledge_texts_by_tenant ON knowledge_texts (build, tenant, number);
UPDATE alembic_version SET version_num='0010' WHERE alembic_version.version_num = '0009';
-- revision 0011
CREATE TABLE child_turns (build BIGINT NOT NULL, tenant TEXT NOT NULL, session TEXT NOT NULL, child_session TEXT NOT NULL, child_turn BIGINT NOT NULL, turn BIGINT NOT NULL, PRIMARY KEY (build, tenant, session, child_session, child_turn)) WITHOUT ROWID;
UPDATE alembic_version SET version_num='0011' WHERE alembic_version.version_num = '0010';
-- rows
INSERT INTO session_attributes (build, tenant, session, name, digest, given_in) VALUES (1, 't', 'first', 'language', 'sha256:959a45d44e6fcf58361ed004681556fe50129f2109e817dec098c00c9e5d2578', 1);
INSERT INTO prompts (build, tenant, session, provider, layer, path, digest, pinned_in) VALUES (1, 't', 'first', 'openai', 'persona', 'openai/persona.md', 'sha256:5e815286bca594454b291f3b0350ec22aab6de20b6d9efeec67d604f6bce65ee', 2);
INSERT INTO turns (build, tenant, session, turn, status, text_in, reply_in, call, finish, excluded, redacted, submitted_at, released_at, settled_at, counted) VALUES (1, 't', 'first', 1, 'completed', 4, 9, '1.1', 'stop', false, false, '2026-01-01T00:00:03.000000Z', '2026-01-01T00:00:03.000000Z', '2026-01-01T00:00:05.000000Z', true);
INSERT INTO turns (build, tenant, session, turn, status, text_in, excluded, redacted, submitted_at, released_at, counted) VALUES (1, 't', 'first', 2, 'open', 10, false, false, '2026-01-01T00:00:05.000000Z', '2026-01-01T00:00:06.000000Z', true);
INSERT INTO turns (build, tenant, session, turn, status, text_in, cause, detail, excluded, redacted, submitted_at, released_at, settled_at, counted) VALUES (1, 't', 'second', 1, 'failed', 2, 'timeout', 'slow', false, false, '2026-01-01T00:00:02.000000Z', '2026-01-01T00:00:02.000000Z', '2026-01-01T00:00:02.000000Z', true);
INSERT INTO calls (build, tenant, session, call, turn, sequence, at, kind, model, digest, budget, tokens, counter, parts, optimizations, savings, attempt, finish, characters) VALUES (1, 't', 'first', '1.1', 1, 6, '2026-01-01T00:00:04.000000Z', 'reply', 'scripted/demo', 'sha256:b05e244762b1e472be89a93800cc3ee326743cecb55984bf12813addb8de66d0', 1000, 30, 'chars/4', 1, '{}', 0, 1, 'stop', 5);
INSERT INTO attempts (build, tenant, session, turn, attempt, call, worker, started_at, ended_at, outcome, known, input_tokens, output_tokens, cached_tokens, micro_dollars, price, copied) VALUES (1, 't', 'first', 1, 1, '1.1', 'w1', '2026-01-01T00:00:03.000000Z', '2026-01-01T00:00:05.000000Z', 'answered', 'reported', 7, 7, 0, 21, 'exact', false);
INSERT INTO window_parts (build, tenant, session, call, component, turn, place, parts, tokens, characters, turns, cut_turns) VALUES (1, 't', 'first', '1.1', 'history', 1, 0, 1, 30, 120, 2, 0);
INSERT INTO phases (build, tenant, session, sequence, phase, forced, at) VALUES (1, 't', 'first', 3, 'one', false, '2026-01-01T00:00:02.000000Z');
INSERT INTO phases (build, tenant, session, sequence, phase, before, forced, turn, at) VALUES (1, 't', 'first', 12, 'two', 'one', false, 2, '2026-01-01T00:00:06.000000Z');
INSERT INTO commands (build, tenant, session, key, hash, sequence) VALUES (1, 't', 'first', 'open', 'sha256:ee0874170b7f6f32b8c2ac9573c428d35b575270a66b757c2c0185d2bd09718d', 1);
INSERT INTO retrieved_entries (build, tenant, session, turn, collection, entry) VALUES (1, 't', 'first', 2, 'champion', 'c-1');
INSERT INTO child_turns (build, tenant, session, child_session, child_turn, turn) VALUES (1, 't', 'first', 'child-0123', 2, 2);
INSERT INTO turn_votes (build, tenant, session, turn, vote) VALUES (1, 't', 'first', 2, 1);
INSERT INTO sessions (build, tenant, session, opened_position, opened_at, blueprint, blueprint_version, blueprint_digest, blueprint_in, profile, attributes, title, sought, turns, redacted, last_sequence, last_hash, last_at) VALUES (1, 't', 'first', 1, '2026-01-01T00:00:01.000000Z', 'guide', 1, 'sha256:ee0874170b7f6f32b8c2ac9573c428d35b575270a66b757c2c0185d2bd09718d', 1, 'chat', '{"language":"de"}', 'Where is the tower?', 'first where is the tower?', 2, false, 15, 'sha256:95849c21965c9a372bbe4aaa58cef64034566860aa02dc42bdd732536eab1de4', '2026-01-01T00:00:07.000000Z');
INSERT INTO sessions (build, tenant, session, opened_position, opened_at, blueprint, blueprint_version, blueprint_digest, blueprint_in, profile, attributes, title, sought, turns, redacted, closed_at, last_sequence, last_hash, last_at) VALUES (1, 't', 'second', 16, '2026-01-01T00:00:01.000000Z', 'assistant', 1, 'sha256:ee0874170b7f6f32b8c2ac9573c428d35b575270a66b757c2c0185d2bd09718d', 1, 'chat', '{}', 'Hello', 'second hello', 1, false, '2026-01-01T00:00:03.000000Z', 4, 'sha256:1f6e50487eba6bc666518915ae9de07103aad272746520c3a735e5bed33469b8', '2026-01-01T00:00:03.000000Z');
