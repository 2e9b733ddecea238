package schedule

import "github.com/nacre-dev/nacre/internal/sqlitefile"

// FileName is the schedules', in the folder of nacre's state.
const FileName = "schedules.sqlite"

// application marks the file as ours (SQLite's application_id): "ncsc".
const application = 0x6e637363

func format() sqlitefile.Format {
	return sqlitefile.Format{
		Name: "schedules", Application: application, Tables: []string{"schedules", "ticks"}, Migrations: []string{firstSchema, secondSchema},
	}
}

// Moments are seconds since 1970. handled is up to where ticks were dealt with, and due is the tick
// that follows. forgotten is the latest whose row was removed: no tick up to it can come again,
// even if the clock goes back.
const firstSchema = `
CREATE TABLE schedules (
    id          TEXT PRIMARY KEY,
    group_name  TEXT NOT NULL,
    kind        TEXT NOT NULL CHECK(kind IN ('cron', 'interval', 'once')),
    value       TEXT NOT NULL,
    zone        TEXT NOT NULL,
    prompt      TEXT NOT NULL,
    gate        TEXT NOT NULL DEFAULT '[]',
    missed      TEXT NOT NULL CHECK(missed IN ('run-once', 'skip')),
    session     TEXT NOT NULL CHECK(session IN ('fresh', 'resume')),
    enabled     INTEGER NOT NULL CHECK(enabled IN (0, 1)),
    created_by  TEXT NOT NULL,
    label       TEXT NOT NULL CHECK(label IN ('untrusted', 'trusted')),
    created     INTEGER NOT NULL,
    announced   INTEGER NOT NULL DEFAULT 0,
    handled     INTEGER NOT NULL,
    due         INTEGER,
    forgotten   INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX schedules_due ON schedules(due) WHERE enabled;
CREATE INDEX schedules_group ON schedules(group_name, created);
CREATE TABLE ticks (
    schedule    TEXT NOT NULL REFERENCES schedules(id) ON DELETE CASCADE,
    at          INTEGER NOT NULL,
    extra       INTEGER NOT NULL CHECK(extra IN (0, 1)),
    state       TEXT NOT NULL CHECK(state IN ('waiting', 'claimed', 'started', 'done', 'failed', 'nothing-to-do', 'skipped', 'interrupted')),
    holder      TEXT NOT NULL DEFAULT '',
    session     TEXT NOT NULL,
    outcome     TEXT NOT NULL DEFAULT '',
    changed     INTEGER NOT NULL,
    PRIMARY KEY (schedule, at, extra)
) WITHOUT ROWID;
CREATE INDEX ticks_open ON ticks(schedule) WHERE state IN ('waiting', 'claimed', 'started');
CREATE TRIGGER ticks_only_forward BEFORE UPDATE OF state ON ticks
WHEN NOT (old.state = 'waiting' AND new.state IN ('claimed', 'skipped')
    OR old.state = 'claimed' AND new.state IN ('waiting', 'started')
    OR old.state = 'started' AND new.state IN ('done', 'failed', 'nothing-to-do', 'interrupted'))
BEGIN
    SELECT RAISE(ABORT, 'a tick only moves forward');
END;
`

// begun is how often a tick was started. One that was interrupted the first time
// may wait to be carried on.
const secondSchema = `
ALTER TABLE ticks ADD COLUMN begun INTEGER NOT NULL DEFAULT 0;
UPDATE ticks SET begun = 1 WHERE state IN ('started', 'done', 'failed', 'nothing-to-do', 'interrupted');
DROP TRIGGER ticks_only_forward;
CREATE TRIGGER ticks_only_forward BEFORE UPDATE OF state ON ticks
WHEN NOT (old.state = 'waiting' AND new.state = 'claimed'
    OR old.state = 'waiting' AND new.state = 'skipped' AND old.begun = 0
    OR old.state = 'waiting' AND new.state = 'interrupted' AND old.begun > 0
    OR old.state = 'claimed' AND new.state IN ('waiting', 'started')
    OR old.state = 'started' AND new.state IN ('done', 'failed', 'nothing-to-do', 'interrupted')
    OR old.state = 'started' AND new.state = 'waiting' AND old.begun = 1)
BEGIN
    SELECT RAISE(ABORT, 'a tick only moves forward');
END;
`

// Migrations are those of a PostgreSQL: the same tables, in which moments are the same numbers, and
// one of who serves. That is a process of a node, as long as the node's lease lasts.
func Migrations() []string {
	return []string{`
CREATE TABLE schedules (
    id          text PRIMARY KEY,
    group_name  text NOT NULL,
    kind        text NOT NULL CHECK(kind IN ('cron', 'interval', 'once')),
    value       text NOT NULL,
    zone        text NOT NULL,
    prompt      text NOT NULL,
    gate        text NOT NULL DEFAULT '[]',
    missed      text NOT NULL CHECK(missed IN ('run-once', 'skip')),
    session     text NOT NULL CHECK(session IN ('fresh', 'resume')),
    enabled     boolean NOT NULL,
    created_by  text NOT NULL,
    label       text NOT NULL CHECK(label IN ('untrusted', 'trusted')),
    created     bigint NOT NULL,
    announced   boolean NOT NULL DEFAULT false,
    handled     bigint NOT NULL,
    due         bigint,
    forgotten   bigint NOT NULL DEFAULT 0
)`, `CREATE INDEX schedules_due ON schedules(due) WHERE enabled`, `CREATE INDEX schedules_group ON schedules(group_name, created)`, `
CREATE TABLE ticks (
    schedule    text NOT NULL REFERENCES schedules(id) ON DELETE CASCADE,
    at          bigint NOT NULL,
    extra       boolean NOT NULL,
    state       text NOT NULL CHECK(state IN ('waiting', 'claimed', 'started', 'done', 'failed', 'nothing-to-do', 'skipped', 'interrupted')),
    holder      text NOT NULL DEFAULT '',
    session     text NOT NULL,
    outcome     text NOT NULL DEFAULT '',
    changed     bigint NOT NULL,
    begun       integer NOT NULL DEFAULT 0,
    PRIMARY KEY (schedule, at, extra)
)`, `CREATE INDEX ticks_open ON ticks(schedule) WHERE state IN ('waiting', 'claimed', 'started')`, `
CREATE FUNCTION ticks_only_forward() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NOT (old.state = 'waiting' AND new.state = 'claimed'
        OR old.state = 'waiting' AND new.state = 'skipped' AND old.begun = 0
        OR old.state = 'waiting' AND new.state = 'interrupted' AND old.begun > 0
        OR old.state = 'claimed' AND new.state IN ('waiting', 'started')
        OR old.state = 'started' AND new.state IN ('done', 'failed', 'nothing-to-do', 'interrupted')
        OR old.state = 'started' AND new.state = 'waiting' AND old.begun = 1) THEN
        RAISE EXCEPTION 'a tick only moves forward';
    END IF;
    RETURN new;
END $$`, `CREATE TRIGGER ticks_only_forward BEFORE UPDATE OF state ON ticks FOR EACH ROW EXECUTE FUNCTION ticks_only_forward()`, `
CREATE TABLE schedule_servers (id text PRIMARY KEY, node text NOT NULL, epoch bigint NOT NULL, incarnation uuid NOT NULL)`}
}
