PRAGMA journal_mode=WAL;        -- Concurrent reads during brief generation
PRAGMA user_version=1;          -- Schema migration tracking

CREATE TABLE memory_entries (
    id          TEXT PRIMARY KEY,
    type        TEXT NOT NULL CHECK(type IN (
                    'preference', 'fact', 'instruction',
                    'context', 'correction'
                )),
    content     TEXT NOT NULL,
    tags        TEXT NOT NULL DEFAULT '[]',     -- JSON array
    behavioral  INTEGER NOT NULL DEFAULT 0,     -- derived from type
    -- superseded_by is the DB column; the API argument is "supersedes"
    -- (the entry names its replacement vs the DB tracks what replaced it)
    superseded_by TEXT REFERENCES memory_entries(id),

    -- Provenance (set by handler, not by agent)
    session_id  TEXT NOT NULL,
    group_name  TEXT NOT NULL,
    created_at  TEXT NOT NULL                   -- ISO 8601
);

-- Full-text search index (SQLite FTS5)
CREATE VIRTUAL TABLE memory_fts USING fts5(
    content,
    tags,
    content=memory_entries,
    content_rowid=rowid
);

-- Keep FTS index in sync
CREATE TRIGGER memory_fts_insert AFTER INSERT ON memory_entries
BEGIN
    INSERT INTO memory_fts(rowid, content, tags)
    VALUES (new.rowid, new.content, new.tags);
END;

CREATE TRIGGER memory_fts_delete AFTER DELETE ON memory_entries
BEGIN
    INSERT INTO memory_fts(memory_fts, rowid, content, tags)
    VALUES ('delete', old.rowid, old.content, old.tags);
END;

CREATE TRIGGER memory_fts_update AFTER UPDATE ON memory_entries
BEGIN
    INSERT INTO memory_fts(memory_fts, rowid, content, tags)
    VALUES ('delete', old.rowid, old.content, old.tags);
    INSERT INTO memory_fts(rowid, content, tags)
    VALUES (new.rowid, new.content, new.tags);
END;

-- Efficient lookups
CREATE INDEX idx_memory_type ON memory_entries(type);
CREATE INDEX idx_memory_behavioral ON memory_entries(behavioral);
CREATE INDEX idx_memory_superseded ON memory_entries(superseded_by);
CREATE INDEX idx_memory_created ON memory_entries(created_at);
