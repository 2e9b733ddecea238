package ledger

import (
	"slices"

	"github.com/nacre-dev/nacre/internal/sqlitefile"
)

// name says to a person what the file is.
const name = "ledger"

// application marks the file as a ledger (SQLite's application_id): "nclg".
const application = 0x6e636c67

func format() sqlitefile.Format {
	return sqlitefile.Format{Name: name, Application: application, Tables: []string{"runs", "changes"}, Migrations: []string{firstSchema, interruptedRuns, effortOfRuns, evidenceOfPowers, orderOfRuns}}
}

const firstSchema = `
CREATE TABLE specs (
    spec_sha    TEXT PRIMARY KEY CHECK(length(spec_sha) = 64),
    task        TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE prompts (
    prompt_sha  TEXT PRIMARY KEY CHECK(length(prompt_sha) = 64),
    prompt      TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE runs (
    seq         INTEGER PRIMARY KEY,
    id          TEXT NOT NULL,
    parent      TEXT NOT NULL DEFAULT '',
    parent_seq  INTEGER REFERENCES runs(seq) CHECK(parent_seq < seq),
    role        TEXT NOT NULL,
    branch      TEXT NOT NULL DEFAULT '',
    session     TEXT NOT NULL DEFAULT '',
    spec_sha    TEXT NOT NULL REFERENCES specs(spec_sha),
    prompt_sha  TEXT NOT NULL REFERENCES prompts(prompt_sha),
    dna         TEXT NOT NULL UNIQUE,
    status      TEXT NOT NULL CHECK(status IN ('running', 'done', 'failed', 'merged', 'rejected')),
    started     TEXT NOT NULL,
    finished    TEXT NOT NULL DEFAULT '',
    summary     TEXT NOT NULL DEFAULT '',
    cost        INTEGER NOT NULL DEFAULT 0 CHECK(cost >= 0),
    tokens_in   INTEGER NOT NULL DEFAULT 0 CHECK(tokens_in >= 0),
    tokens_out  INTEGER NOT NULL DEFAULT 0 CHECK(tokens_out >= 0),
    provider    TEXT NOT NULL DEFAULT '',
    model       TEXT NOT NULL DEFAULT '',
    verdict     TEXT NOT NULL DEFAULT '' CHECK(verdict IN ('', 'held', 'failed')),
    verdict_by  TEXT NOT NULL DEFAULT '' CHECK(verdict_by IN ('', 'strong', 'person', 'weak')),
    verdict_who TEXT NOT NULL DEFAULT '',
    CHECK((status = 'running') = (finished = '')),
    CHECK((verdict = '') = (verdict_by = ''))
);
CREATE UNIQUE INDEX runs_running ON runs(id) WHERE status = 'running';
CREATE INDEX runs_id ON runs(id);
CREATE INDEX runs_parent ON runs(parent_seq) WHERE parent_seq IS NOT NULL;
CREATE INDEX runs_dna_prefix ON runs(substr(dna, 1, 30));
CREATE INDEX runs_status ON runs(status);
CREATE TABLE changes (
    run         INTEGER NOT NULL REFERENCES runs(seq),
    number      INTEGER NOT NULL,
    status      TEXT NOT NULL,
    at          TEXT NOT NULL,
    reason      TEXT NOT NULL DEFAULT '',
    chain       TEXT NOT NULL,
    position    INTEGER NOT NULL CHECK(position >= 0),
    hash        TEXT NOT NULL,
    PRIMARY KEY (run, number)
) WITHOUT ROWID;
CREATE TRIGGER runs_only_forward BEFORE UPDATE OF status ON runs
WHEN NOT (old.status = 'running' AND new.status IN ('done', 'failed') OR old.status = 'done' AND new.status IN ('merged', 'rejected'))
BEGIN
    SELECT RAISE(ABORT, 'a run only moves forward');
END;
CREATE TRIGGER runs_stay BEFORE DELETE ON runs
BEGIN
    SELECT RAISE(ABORT, 'a run stays in the ledger');
END;
CREATE TRIGGER runs_same BEFORE UPDATE OF id, parent, parent_seq, role, spec_sha, prompt_sha, dna, started ON runs
BEGIN
    SELECT RAISE(ABORT, 'what a run was asked does not change');
END;
`

// interruptedRuns tells runs whose session runs from those that somebody has to go on
// with, whose agent may meanwhile run again.
const interruptedRuns = `
ALTER TABLE runs ADD COLUMN interrupted TEXT NOT NULL DEFAULT '';
DROP INDEX runs_running;
CREATE UNIQUE INDEX runs_running ON runs(id) WHERE status = 'running' AND interrupted = '';
`

// effortOfRuns adds where a run worked and how often its agent tried, by which later tasks are
// estimated. Runs from before have neither.
const effortOfRuns = `
ALTER TABLE runs ADD COLUMN project TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN tries INTEGER NOT NULL DEFAULT 0 CHECK(tries >= 0);
CREATE INDEX runs_effort ON runs(project, seq) WHERE tries > 0;
`

// evidenceOfPowers adds which powers a run used, and the list of what speaks for each of them
// and against it, which only grows (M-51).
const evidenceOfPowers = `
CREATE TABLE uses (
    run         INTEGER NOT NULL REFERENCES runs(seq),
    power       TEXT NOT NULL,
    task        TEXT NOT NULL,
    tainted     INTEGER NOT NULL,
    PRIMARY KEY (run, power)
) WITHOUT ROWID;
CREATE TABLE evidence (
    number      INTEGER PRIMARY KEY AUTOINCREMENT,
    power       TEXT NOT NULL,
    what        TEXT NOT NULL CHECK(what IN ('held', 'failed', 'granted', 'revoked')),
    at          TEXT NOT NULL,
    until       TEXT NOT NULL DEFAULT '',
    run         INTEGER REFERENCES runs(seq),
    who         TEXT NOT NULL DEFAULT '',
    chain       TEXT NOT NULL,
    position    INTEGER NOT NULL CHECK(position >= 0),
    hash        TEXT NOT NULL
);
CREATE INDEX evidence_power ON evidence(power, number);
CREATE TRIGGER evidence_stays BEFORE DELETE ON evidence
BEGIN
    SELECT RAISE(ABORT, 'evidence stays in the ledger');
END;
CREATE TRIGGER evidence_same BEFORE UPDATE ON evidence
BEGIN
    SELECT RAISE(ABORT, 'evidence does not change');
END;
`

// orderOfRuns lists runs by when they started: the row of a plain run or of an exec is
// entered when somebody looks, after those of tasks that came later.
const orderOfRuns = `
CREATE INDEX runs_started ON runs(started, seq);
`

// Migrations are those of a PostgreSQL: the same tables, with texts in the order of their bytes.
func Migrations() []string { return slices.Concat(sharedRuns(), sharedEvidence()) }

func sharedRuns() []string {
	return []string{`
CREATE TABLE specs (
    spec_sha    text PRIMARY KEY CHECK(length(spec_sha) = 64),
    task        text NOT NULL
)`, `
CREATE TABLE prompts (
    prompt_sha  text PRIMARY KEY CHECK(length(prompt_sha) = 64),
    prompt      text NOT NULL
)`, `
CREATE TABLE runs (
    seq         bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    id          text COLLATE "C" NOT NULL,
    parent      text NOT NULL DEFAULT '',
    parent_seq  bigint REFERENCES runs(seq) CHECK(parent_seq < seq),
    role        text NOT NULL,
    branch      text NOT NULL DEFAULT '',
    session     text NOT NULL DEFAULT '',
    spec_sha    text NOT NULL REFERENCES specs(spec_sha),
    prompt_sha  text NOT NULL REFERENCES prompts(prompt_sha),
    dna         text COLLATE "C" NOT NULL UNIQUE,
    status      text NOT NULL CHECK(status IN ('running', 'done', 'failed', 'merged', 'rejected')),
    started     text COLLATE "C" NOT NULL,
    finished    text NOT NULL DEFAULT '',
    summary     text NOT NULL DEFAULT '',
    cost        bigint NOT NULL DEFAULT 0 CHECK(cost >= 0),
    tokens_in   bigint NOT NULL DEFAULT 0 CHECK(tokens_in >= 0),
    tokens_out  bigint NOT NULL DEFAULT 0 CHECK(tokens_out >= 0),
    provider    text NOT NULL DEFAULT '',
    model       text NOT NULL DEFAULT '',
    verdict     text NOT NULL DEFAULT '' CHECK(verdict IN ('', 'held', 'failed')),
    verdict_by  text NOT NULL DEFAULT '' CHECK(verdict_by IN ('', 'strong', 'person', 'weak')),
    verdict_who text NOT NULL DEFAULT '',
    interrupted text NOT NULL DEFAULT '',
    project     text NOT NULL DEFAULT '',
    tries       integer NOT NULL DEFAULT 0 CHECK(tries >= 0),
    CHECK((status = 'running') = (finished = '')),
    CHECK((verdict = '') = (verdict_by = ''))
)`, `
CREATE UNIQUE INDEX runs_running ON runs(id) WHERE status = 'running' AND interrupted = '';
CREATE INDEX runs_id ON runs(id);
CREATE INDEX runs_session ON runs(session);
CREATE INDEX runs_parent ON runs(parent_seq) WHERE parent_seq IS NOT NULL;
CREATE INDEX runs_dna_prefix ON runs(substr(dna, 1, 30));
CREATE INDEX runs_status ON runs(status);
CREATE INDEX runs_effort ON runs(project, seq) WHERE tries > 0;
CREATE INDEX runs_started ON runs(started, seq)`, `
CREATE TABLE changes (
    run         bigint NOT NULL REFERENCES runs(seq),
    number      integer NOT NULL,
    status      text NOT NULL,
    at          text NOT NULL,
    reason      text NOT NULL DEFAULT '',
    chain       text NOT NULL,
    position    bigint NOT NULL CHECK(position >= 0),
    hash        text NOT NULL,
    PRIMARY KEY (run, number)
)`}
}

// sharedEvidence are the other tables, and the rules.
func sharedEvidence() []string {
	return []string{`
CREATE TABLE uses (
    run         bigint NOT NULL REFERENCES runs(seq),
    power       text COLLATE "C" NOT NULL,
    task        text NOT NULL,
    tainted     boolean NOT NULL,
    PRIMARY KEY (run, power)
)`, `
CREATE TABLE evidence (
    number      bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    power       text NOT NULL,
    what        text NOT NULL CHECK(what IN ('held', 'failed', 'granted', 'revoked')),
    at          text NOT NULL,
    until       text NOT NULL DEFAULT '',
    run         bigint REFERENCES runs(seq),
    who         text NOT NULL DEFAULT '',
    chain       text NOT NULL,
    position    bigint NOT NULL CHECK(position >= 0),
    hash        text NOT NULL
)`, `CREATE INDEX evidence_power ON evidence(power, number)`, `
CREATE FUNCTION ledger_refuses() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION '%', TG_ARGV[0];
END $$`, `
CREATE TRIGGER runs_only_forward BEFORE UPDATE ON runs FOR EACH ROW
WHEN (old.status <> new.status AND NOT (old.status = 'running' AND new.status IN ('done', 'failed') OR old.status = 'done' AND new.status IN ('merged', 'rejected')))
EXECUTE FUNCTION ledger_refuses('a run only moves forward');
CREATE TRIGGER runs_stay BEFORE DELETE ON runs FOR EACH ROW EXECUTE FUNCTION ledger_refuses('a run stays in the ledger');
CREATE TRIGGER runs_same BEFORE UPDATE OF id, parent, parent_seq, role, spec_sha, prompt_sha, dna, started ON runs FOR EACH ROW
EXECUTE FUNCTION ledger_refuses('what a run was asked does not change');
CREATE TRIGGER evidence_stays BEFORE DELETE ON evidence FOR EACH ROW EXECUTE FUNCTION ledger_refuses('evidence stays in the ledger');
CREATE TRIGGER evidence_same BEFORE UPDATE ON evidence FOR EACH ROW EXECUTE FUNCTION ledger_refuses('evidence does not change')`}
}
