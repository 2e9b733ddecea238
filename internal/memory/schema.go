package memory

import "github.com/nacre-dev/nacre/internal/sqlitefile"

// name is what a person calls the file.
const name = "memory"

// format is that of a group's file. Files of the seed's version 1 have no
// application id, and neither have ours (D-40). What is erased is overwritten.
func format() sqlitefile.Format {
	return sqlitefile.Format{
		Name: name, Tables: []string{"memory_entries", "memory_fts"}, Migrations: []string{seedSchema, trustSchema, trailSchema, goneSchema, reviewSchema, lessonSchema, keptSchema},
		Pragmas: []string{"secure_delete(ON)"},
	}
}

// seedSchema is version 1, as the seed has it.
const seedSchema = `
CREATE TABLE memory_entries (
    id          TEXT PRIMARY KEY,
    type        TEXT NOT NULL CHECK(type IN ('preference', 'fact', 'instruction', 'context', 'correction')),
    content     TEXT NOT NULL,
    tags        TEXT NOT NULL DEFAULT '[]',
    behavioral  INTEGER NOT NULL DEFAULT 0,
    superseded_by TEXT REFERENCES memory_entries(id),
    session_id  TEXT NOT NULL,
    group_name  TEXT NOT NULL,
    created_at  TEXT NOT NULL
);
CREATE VIRTUAL TABLE memory_fts USING fts5(content, tags, content=memory_entries, content_rowid=rowid);
CREATE TRIGGER memory_fts_insert AFTER INSERT ON memory_entries
BEGIN
    INSERT INTO memory_fts(rowid, content, tags) VALUES (new.rowid, new.content, new.tags);
END;
CREATE TRIGGER memory_fts_delete AFTER DELETE ON memory_entries
BEGIN
    INSERT INTO memory_fts(memory_fts, rowid, content, tags) VALUES ('delete', old.rowid, old.content, old.tags);
END;
CREATE TRIGGER memory_fts_update AFTER UPDATE ON memory_entries
BEGIN
    INSERT INTO memory_fts(memory_fts, rowid, content, tags) VALUES ('delete', old.rowid, old.content, old.tags);
    INSERT INTO memory_fts(rowid, content, tags) VALUES (new.rowid, new.content, new.tags);
END;
CREATE INDEX idx_memory_type ON memory_entries(type);
CREATE INDEX idx_memory_behavioral ON memory_entries(behavioral);
CREATE INDEX idx_memory_superseded ON memory_entries(superseded_by);
CREATE INDEX idx_memory_created ON memory_entries(created_at);
`

// trustSchema adds what the seed leaves open: who vouches for an entry (trust), what its writer had
// read (label), and when it expires. It adds edges, too, the limits a session has used up, and word
// stems. The update trigger is narrowed to the text: marking an entry superseded must not touch the
// index. The rowid gets an explicit name, since VACUUM may renumber an implicit one under the
// index.
const trustSchema = `
DROP TRIGGER memory_fts_insert;
DROP TRIGGER memory_fts_delete;
DROP TRIGGER memory_fts_update;
DROP TABLE memory_fts;
ALTER TABLE memory_entries RENAME TO memory_entries_1;
CREATE TABLE memory_entries (
    seq         INTEGER PRIMARY KEY,
    id          TEXT NOT NULL UNIQUE,
    type        TEXT NOT NULL CHECK(type IN ('preference', 'fact', 'instruction', 'context', 'correction')),
    content     TEXT NOT NULL,
    tags        TEXT NOT NULL DEFAULT '[]',
    behavioral  INTEGER NOT NULL DEFAULT 0,
    superseded_by TEXT REFERENCES memory_entries(id),
    session_id  TEXT NOT NULL,
    group_name  TEXT NOT NULL,
    created_at  TEXT NOT NULL,
    trust       TEXT NOT NULL DEFAULT 'untrusted' CHECK(trust IN ('untrusted', 'trusted')),
    label       TEXT NOT NULL DEFAULT 'untrusted' CHECK(label IN ('untrusted', 'trusted')),
    expires_at  TEXT
);
INSERT INTO memory_entries(seq, id, type, content, tags, behavioral, superseded_by, session_id, group_name, created_at)
    SELECT rowid, id, type, content, tags, behavioral, superseded_by, session_id, group_name, created_at FROM memory_entries_1 ORDER BY rowid;
DROP TABLE memory_entries_1;
CREATE INDEX idx_memory_superseded ON memory_entries(superseded_by) WHERE superseded_by IS NOT NULL;
CREATE INDEX idx_memory_current ON memory_entries(group_name, created_at) WHERE superseded_by IS NULL;
CREATE INDEX idx_memory_trusted ON memory_entries(behavioral, created_at) WHERE trust = 'trusted';
CREATE VIRTUAL TABLE memory_fts USING fts5(content, tags, content=memory_entries, content_rowid=seq, tokenize='porter unicode61');
INSERT INTO memory_fts(memory_fts) VALUES ('rebuild');
CREATE TRIGGER memory_fts_insert AFTER INSERT ON memory_entries
BEGIN
    INSERT INTO memory_fts(rowid, content, tags) VALUES (new.seq, new.content, new.tags);
END;
CREATE TRIGGER memory_fts_delete AFTER DELETE ON memory_entries
BEGIN
    INSERT INTO memory_fts(memory_fts, rowid, content, tags) VALUES ('delete', old.seq, old.content, old.tags);
END;
CREATE TRIGGER memory_fts_update AFTER UPDATE OF content, tags ON memory_entries
BEGIN
    INSERT INTO memory_fts(memory_fts, rowid, content, tags) VALUES ('delete', old.seq, old.content, old.tags);
    INSERT INTO memory_fts(rowid, content, tags) VALUES (new.seq, new.content, new.tags);
END;
CREATE TABLE memory_edges (
    from_id     TEXT NOT NULL REFERENCES memory_entries(id) ON DELETE CASCADE,
    to_id       TEXT NOT NULL REFERENCES memory_entries(id) ON DELETE CASCADE,
    kind        TEXT NOT NULL CHECK(kind IN ('prevents', 'derived_from')),
    session_id  TEXT NOT NULL,
    created_at  TEXT NOT NULL,
    PRIMARY KEY (from_id, to_id, kind)
);
CREATE INDEX idx_memory_edges_to ON memory_edges(to_id);
CREATE TABLE memory_used (
    session_id  TEXT NOT NULL,
    what        TEXT NOT NULL,
    count       INTEGER NOT NULL,
    PRIMARY KEY (session_id, what)
);
`

// trailSchema adds which entries changed, so that every process that holds an index of them in
// memory can follow. It adds from what entries derive, which outlives the entries themselves
// (M-57), embeddings, and what is left to be scrubbed from the file after an erasure. Words of
// deleted entries leave the full-text index at once.
const trailSchema = `
CREATE TABLE memory_changes (
    change      INTEGER PRIMARY KEY AUTOINCREMENT,
    seq         INTEGER NOT NULL
);
CREATE TRIGGER memory_changes_insert AFTER INSERT ON memory_entries
BEGIN
    INSERT INTO memory_changes(seq) VALUES (new.seq);
END;
CREATE TRIGGER memory_changes_delete AFTER DELETE ON memory_entries
BEGIN
    INSERT INTO memory_changes(seq) VALUES (old.seq);
END;
CREATE TRIGGER memory_changes_update AFTER UPDATE ON memory_entries
BEGIN
    INSERT INTO memory_changes(seq) VALUES (new.seq);
END;
CREATE TRIGGER memory_changes_link AFTER INSERT ON memory_edges
BEGIN
    INSERT INTO memory_changes(seq) SELECT seq FROM memory_entries WHERE id IN (new.from_id, new.to_id);
END;
CREATE TRIGGER memory_changes_unlink AFTER DELETE ON memory_edges
BEGIN
    INSERT INTO memory_changes(seq) SELECT seq FROM memory_entries WHERE id IN (old.from_id, old.to_id);
END;
CREATE TABLE memory_trail (
    child       TEXT NOT NULL,
    parent      TEXT NOT NULL,
    kind        TEXT NOT NULL CHECK(kind IN ('derived_from', 'supersedes', 'recalled')),
    PRIMARY KEY (parent, child, kind)
) WITHOUT ROWID;
CREATE INDEX idx_memory_trail_child ON memory_trail(child, parent, kind);
INSERT INTO memory_trail SELECT from_id, to_id, 'derived_from' FROM memory_edges WHERE kind = 'derived_from';
INSERT INTO memory_trail SELECT superseded_by, id, 'supersedes' FROM memory_entries WHERE superseded_by IS NOT NULL;
CREATE TABLE memory_recalled (
    session_id  TEXT NOT NULL,
    id          TEXT NOT NULL,
    PRIMARY KEY (session_id, id)
) WITHOUT ROWID;
CREATE TABLE memory_vectors (
    seq         INTEGER PRIMARY KEY REFERENCES memory_entries(seq) ON DELETE CASCADE,
    model       TEXT NOT NULL,
    scale       REAL NOT NULL,
    vector      BLOB NOT NULL
);
CREATE TABLE memory_scrub (pending INTEGER PRIMARY KEY CHECK(pending = 1));
CREATE INDEX idx_memory_session ON memory_entries(session_id);
INSERT INTO memory_fts(memory_fts, rank) VALUES ('secure-delete', 1);
`

// goneSchema adds which session wrote what is gone, so that what a session planted
// is found through it too, and who was shown an entry (M-57). A brief reads its
// entries in their order, and not all of them to put them in order.
const goneSchema = `
CREATE TABLE memory_gone (
    id          TEXT PRIMARY KEY,
    session_id  TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX idx_memory_gone ON memory_gone(session_id);
CREATE INDEX idx_memory_recalled ON memory_recalled(id);
DROP INDEX idx_memory_trusted;
CREATE INDEX idx_memory_group ON memory_entries(group_name);
CREATE INDEX idx_memory_brief ON memory_entries(group_name, behavioral, created_at, seq) WHERE trust = 'trusted' AND superseded_by IS NULL;
CREATE TRIGGER memory_gone_delete AFTER DELETE ON memory_entries
BEGIN
    INSERT OR IGNORE INTO memory_gone VALUES (old.id, old.session_id);
END;
`

// reviewSchema gives the labels that trustSchema made a meaning: what had been told to
// whoever wrote an entry was not known before. What waits for a review is found
// without reading the rest.
const reviewSchema = `
UPDATE memory_entries SET label = 'untrusted' WHERE trust = 'untrusted' AND label = 'trusted';
CREATE INDEX idx_memory_review ON memory_entries(group_name, created_at, seq) WHERE trust = 'untrusted' AND label = 'trusted' AND superseded_by IS NULL;
`

// lessonSchema adds what the host itself learned from tasks, beside their entries (M-53). It tells
// which of them are failures and which are fixes, of which task in which project. It tells, too,
// which edges the host drew after it had seen the fix hold. An agent's edge is none of those.
const lessonSchema = `
ALTER TABLE memory_edges ADD COLUMN verified INTEGER NOT NULL DEFAULT 0;
CREATE TABLE memory_lessons (
    id          TEXT PRIMARY KEY REFERENCES memory_entries(id) ON DELETE CASCADE,
    kind        TEXT NOT NULL CHECK(kind IN ('failure', 'fix')),
    project     TEXT NOT NULL,
    task        TEXT NOT NULL,
    cause       TEXT NOT NULL,
    source      TEXT NOT NULL,
    UNIQUE (source, kind, cause)
) WITHOUT ROWID;
CREATE INDEX idx_memory_lessons ON memory_lessons(project, kind);
`

// ftsDelete is the trigger of trustSchema of that name.
const ftsDelete = `CREATE TRIGGER memory_fts_delete AFTER DELETE ON memory_entries
BEGIN
    INSERT INTO memory_fts(memory_fts, rowid, content, tags) VALUES ('delete', old.seq, old.content, old.tags);
END`
