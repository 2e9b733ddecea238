package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/question"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// whoever writes to the database, and an older nacre, approves nothing and shows nobody a question that a
// session does not ask. The session goes on waiting, and its chain says what to do. A machine whose key was rotated answers.
func TestWhoWritesToTheStoreApprovesNothing(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	one, two := sharing(t, address), sharing(t, address)
	one.admits(t, two)
	r := one.beginAsking()
	q := two.question()
	pool, err := pgxpool.New(t.Context(), address)
	check(t, err)
	defer pool.Close()
	do := func(statement string, args ...any) {
		t.Helper()
		done, err := pool.Exec(t.Context(), statement, args...)
		if err != nil || done.RowsAffected() != 1 {
			t.Fatalf("%s: %v, %v", statement, done, err)
		}
	}
	text, err := json.Marshal(nacre.Press{
		ID: q.ID, Identity: fmt.Sprintf("terminal:%d", os.Geteuid()), Shown: question.Of(q).Digest(), Ruling: nacre.Ruling{Verdict: nacre.Allow, By: "me"},
	})
	check(t, err)
	do(`INSERT INTO nacre_press (name, desk, press, person) SELECT 'mine', desk, $1, $2 FROM nacre_question`, text, "operator")
	eventually(t, "a record of it", func() bool { return strings.Contains(one.records("asks"), `"reason":"unsigned"`) })
	one.nacre("audit", "show", "asks").want(t, 0, "An answer from the store to the question "+q.ID+" decided nothing (unsigned)", "update nacre on the machine where it comes from")

	var genuine []byte
	check(t, pool.QueryRow(t.Context(), `SELECT question FROM nacre_question`).Scan(&genuine))
	do(`UPDATE nacre_question SET question = $1`, []byte(strings.Replace(string(genuine), "R-1", "R-9", 1)))
	two.nacre("approvals", "list").want(t, 1, "its signature does not hold", "somebody changed the database")
	two.nacre("approvals", "approve", q.ID).want(t, 1, "its signature does not hold")
	two.nacre("approvals", "show", q.ID).want(t, 1, "somebody changed the database")
	q.Arguments = json.RawMessage(`{"reminder_id":"R-9"}`)
	unsigned, err := json.Marshal(q) // as a nacre of before writes it
	check(t, err)
	do(`UPDATE nacre_question SET question = $1`, unsigned)
	two.nacre("approvals", "list").want(t, 1, "R-9", "no machine signed it")
	two.nacre("approvals", "show", q.ID).want(t, 1, "R-9", "no machine signed it")
	two.nacre("approvals", "approve", q.ID).want(t, 1, "what was shown is not what is asked")
	do(`UPDATE nacre_question SET question = $1`, genuine)

	var certificate []byte
	name, _ := two.machineName(t)
	check(t, pool.QueryRow(t.Context(), `SELECT certificate FROM nacre_machine WHERE name = $1`, name).Scan(&certificate))
	do(`UPDATE nacre_machine SET certificate = NULL WHERE name = $1`, name)
	two.nacre("approvals", "approve", q.ID).want(t, 1, "nacre store admit "+name)
	do(`UPDATE nacre_machine SET certificate = $2 WHERE name = $1`, name, certificate)
	if records := one.records("asks"); strings.Contains(records, `"outcome":"approved"`) || strings.Count(records, `"reason":"forged"`) != 1 {
		t.Errorf("have %s", records)
	}
	two.nacre("audit", "rotate-key").want(t, 0)
	two.nacre("approvals", "approve", q.ID).want(t, 0, "approved")
	finish(t, r).want(t, 0, "R-1")
	one.nacre("audit", "verify").want(t, 0)
}

// whoever writes to the database does nothing to the terminal of whoever looks.
func TestWhatIsInTheStoreMovesNoCursor(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	one, two := sharing(t, address), sharing(t, address)
	one.admits(t, two)
	one.nacre("exec", "-q", "--", "ipc", "create_reminder", `{"title":"pay","list":"Work"}`).want(t, 0, "R-1")
	one.nacre("store", "migrate").want(t, 0)
	one.nacre("schedule", "add", "--every", "15m", "--prompt", "Look.", "--missed", "skip").want(t, 0)
	pool, err := pgxpool.New(t.Context(), address)
	check(t, err)
	defer pool.Close()
	const evil = "\x1b]0;owned\a\x1b[2J\nadmitted \u202e"
	for _, statement := range []string{
		`INSERT INTO nacre_machine (name, key, since) VALUES ('laptop' || $1, '\x00', 0)`,
		`INSERT INTO nacre_session (machine, session, kind, owner, started, holder, state) SELECT name, 's' || $1, 'exec' || $1, 'main' || $1, now(), gen_random_uuid(), 'running' FROM nacre_machine`,
		`UPDATE nacre_session SET outcome = $1`,
		`UPDATE nacre_authority SET machine = $1`,
		`ALTER TABLE runs DISABLE TRIGGER ALL`,
		`UPDATE runs SET id = id || $1, role = role || $1, branch = $1, provider = $1, model = $1, summary = $1`,
		`UPDATE schedules SET prompt = prompt || $1, zone = $1, created_by = $1`,
		`INSERT INTO nacre_lease (machine, lease, session, owner, credential, holder, until) SELECT name, 'l' || $1, 's' || $1, 'main', 'hub' || $1, gen_random_uuid(), now() + interval '1 hour' FROM nacre_machine`,
		`INSERT INTO nacre_question (desk, id, session, question) VALUES ('d', 'q', 's', convert_to('{"id":"q\u001b[2J","session":"s\u001b[2J","capability":"x\u001b[2J"}', 'UTF8'))`,
		`INSERT INTO nacre_question (desk, id, session, question) VALUES ('d', 'r', 's', convert_to('{"signed":{"by":"\u001b[2J","signature":""},"id":"q\u001b[2J","session":"s\u001b[2J"}', 'UTF8'))`,
	} {
		args := []any{evil}
		if !strings.Contains(statement, "$1") {
			args = nil
		}
		if _, err := pool.Exec(t.Context(), statement, args...); err != nil {
			t.Fatal(statement, err)
		}
	}
	for _, args := range []string{
		"store machines", "ps", "sessions list", "ledger list", "schedule list", "credentials leases", "approvals list", "approvals waiting", "approvals approve q", "--json approvals list", "audit verify", "store verify", "doctor", "store admit nobody", "memory list",
	} {
		r := two.nacre(strings.Fields(args)...)
		if said := r.stdout + r.stderr; strings.ContainsAny(said, "\x1b\a\u202e") {
			t.Errorf("nacre %s: have %q", args, said)
		}
	}
}
