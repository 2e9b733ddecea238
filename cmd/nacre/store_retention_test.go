package main_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// K-20: what a machine prunes of its chains leaves the store, too, after the store has the checkpoint that says
// so. The chains of a machine that is gone for good leave it by a statement of the installation's key. Every machine
// verifies then, and nothing else may be missing. What cannot be verified is kept.
func TestWhatIsOldAndWhoIsGoneLeaveTheStore(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	one, two, gone := sharing(t, address), sharing(t, address), sharing(t, address)
	one.admits(t, two, gone)
	pool, err := pgxpool.New(t.Context(), address)
	check(t, err)
	defer pool.Close()
	does := func(statement string) {
		t.Helper()
		done, err := pool.Exec(t.Context(), statement)
		check(t, err)
		if done.RowsAffected() == 0 {
			t.Fatalf("nothing was changed: %s", statement)
		}
	}
	chains := func(like string) (n int) {
		t.Helper()
		check(t, pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM nacre_chain WHERE chain LIKE $1) + (SELECT count(*) FROM nacre_chain_line WHERE chain LIKE $1)`, like).Scan(&n))
		return n
	}
	verify := func(code int, says ...string) {
		t.Helper()
		for _, i := range []*installation{one, two} {
			i.nacre("audit", "verify").want(t, code, says...)
		}
	}
	inName, _ := two.machineName(t)
	goneName, _ := gone.machineName(t)

	two.nacre("exec", "-q", "--session", "old", "--", "true").want(t, 0)
	verify(0)
	does(`CREATE TABLE was AS SELECT * FROM nacre_chain WHERE chain LIKE 'old.%'`)
	does(`CREATE TABLE was_line AS SELECT * FROM nacre_chain_line WHERE chain LIKE 'old.%'`)
	now := time.Now().Format(time.RFC3339Nano)
	two.env = append(two.env, "STORE=postgres://nacre@/x?host=/nonexistent")
	two.nacre("audit", "prune", "--before", now).want(t, 1, "does not answer")
	two.env = append(two.env, "STORE="+address) // the last one counts
	two.nacre("audit", "prune", "--before", now, "--dry-run").want(t, 0, "would remove all of")
	if chains("old.%") == 0 {
		t.Error("what is not removed here is gone from the store")
	}
	two.nacre("audit", "prune", "--before", now).want(t, 0, "removed all of")
	if n := chains("old.%"); n != 0 {
		t.Errorf("%d rows are left of what was removed", n)
	}
	verify(0)
	one.nacre("audit", "show", inName+"/old").want(t, 1, "was pruned there")
	does(`INSERT INTO nacre_chain SELECT * FROM was`) // as a nacre of before leaves it
	does(`INSERT INTO nacre_chain_line SELECT * FROM was_line`)
	verify(0)
	two.nacre("audit", "prune", "--before", now).want(t, 0)
	if n := chains("old.%"); n != 0 {
		t.Errorf("%d rows are left of what was removed before", n)
	}
	two.nacre("exec", "-q", "--session", "young", "--", "true").want(t, 0)
	verify(0, inName+"/young.")

	working := gone.begin("exec", "-q", "--session", "last", "--", "sleep", "600")
	eventually(t, "its session", func() bool { return strings.Contains(one.nacre("ps").stdout, goneName+"/last") })
	two.nacre("store", "retire", goneName).want(t, 1, "run nacre store retire "+goneName)
	one.nacre("store", "retire", "nobody").want(t, 1, "no machine of that name")
	one.nacre("store", "retire", goneName).want(t, 1, "a session of it works now")
	here, _ := one.machineName(t)
	one.nacre("store", "retire", here).want(t, 1, "this is that machine")
	check(t, working.Process.Kill())
	_ = working.Wait() // as it was killed
	eventually(t, "that it is lost", func() bool { return strings.Contains(one.nacre("sessions", "list").stdout, "node_lost") })
	verify(0, goneName+"/last.")
	const flip = `UPDATE nacre_chain_line SET lines = set_byte(lines, 99, get_byte(lines, 99) # 1) WHERE chain = 'last.1'`
	does(flip)
	one.nacre("store", "retire", goneName).want(t, 1, "evidence that does not hold is kept")
	does(flip)
	one.nacre("store", "retire", goneName).want(t, 0, "records left the store")
	if n := chains("last.%"); n != 0 {
		t.Errorf("%d rows are left of a machine that is gone", n)
	}
	has(t, one.nacre("store", "machines").stdout, "retired")
	does(`CREATE TABLE said AS SELECT name, retired FROM nacre_machine`)
	does(`UPDATE nacre_machine SET retired = NULL`) // nobody but the installation's key says so
	verify(1, "the chain of machine "+goneName+" is missing from the store")
	does(`UPDATE nacre_machine m SET retired = set_byte(s.retired, length(s.retired) - 9, 48) FROM said s WHERE s.name = m.name`)
	verify(1, "the chain of machine "+goneName+" is missing from the store")
	does(`UPDATE nacre_machine m SET retired = s.retired FROM said s WHERE s.name = m.name`)
	verify(0)

	gone.nacre("exec", "-q", "--", "true").want(t, 125, "is not admitted")
	one.nacre("store", "admit", goneName).want(t, 0)
	gone.nacre("store", "migrate").want(t, 0)
	gone.nacre("exec", "-q", "--session", "back", "--", "true").want(t, 0)
	verify(0, goneName+"/back.")
}
