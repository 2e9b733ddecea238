package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// storeConfig names the store that machines share.
const storeConfig = "[store]\nurl_env = \"STORE\"\ninstallation = \"acme\"\n"

// sharing is a machine of its own with the store at an address.
func sharing(t *testing.T, address string) *installation {
	t.Helper()
	i := install(t)
	i.env = append(i.env, "STORE="+address)
	i.write("home/.config/nacre/config.toml", storeConfig+toolsConfig)
	return i
}

// machineName is what a machine is called in the store, and whether it is admitted.
func (i *installation) machineName(t *testing.T) (name string, admitted bool) {
	t.Helper()
	var list []struct {
		Name           string
		Here, Admitted bool
	}
	listed := i.nacre("--json", "store", "machines")
	if err := json.Unmarshal([]byte(listed.stdout), &list); err != nil {
		t.Fatalf("%v: %s%s", err, listed.stdout, listed.stderr)
	}
	for _, m := range list {
		if m.Here {
			return m.Name, m.Admitted
		}
	}
	t.Fatalf("this machine is none of %+v", list)
	return "", false
}

// admits makes other machines of the store ones that record; this one is the first.
func (i *installation) admits(t *testing.T, others ...*installation) {
	t.Helper()
	if _, admitted := i.machineName(t); !admitted {
		t.Fatal("the first machine of a store is not admitted")
	}
	for _, o := range others {
		name, _ := o.machineName(t)
		i.nacre("store", "admit", name).want(t, 0, name)
	}
}

// a machine records nothing in a store, and so does nothing, before the machine that holds the
// installation's key admits it. Then the chains of all are verified at each. What was recorded at a machine that is
// lost is there, what somebody changed in the database is found, and so is a machine that was put back to yesterday.
func TestTheChainsOfAllMachinesAreVerifiedAtEach(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	one, two := sharing(t, address), sharing(t, address)
	one.nacre("store", "migrate").want(t, 0)
	one.nacre("exec", "-q", "--session", "first", "--", "true").want(t, 0)
	refused := two.nacre("exec", "-q", "--session", "second", "--", "touch", "ran")
	two.nacre("exec", "-q", "--", "true").want(t, 125, "is not admitted", "nacre store admit")
	if _, err := os.Stat(filepath.Join(two.work, "ran")); refused.code == 0 || err == nil {
		t.Errorf("a machine that nobody admitted: have %d, %v", refused.code, err)
	}
	name, admitted := two.machineName(t)
	if admitted {
		t.Error("a machine admitted itself")
	}
	has(t, two.nacre("doctor", "--no-turns").stdout, "is not admitted, so no session begins here", "nacre store admit "+name)
	two.nacre("store", "admit", name).want(t, 1, "holds the key of the store")
	one.nacre("store", "admit", "nobody").want(t, 1, "no machine of that name")
	one.nacre("store", "admit", name).want(t, 0, name)
	two.nacre("exec", "-q", "--session", "second", "--", "true").want(t, 0)
	for _, i := range []*installation{one, two} {
		i.nacre("audit", "verify").want(t, 0, "first.1: ", "/first.1: ", name+"/second.", "closed")
		i.nacre("store", "verify").want(t, 0, "nacre_chain", "it holds")
	}

	pool, err := pgxpool.New(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(t.Context(), `DELETE FROM nacre_chain WHERE chain = 'first.1'`); err != nil { // as if an older nacre had written it
		t.Fatal(err)
	}
	one.nacre("audit", "verify").want(t, 1, "first.1", "nacre store migrate")
	one.nacre("store", "migrate").want(t, 0)
	one.nacre("audit", "verify").want(t, 0, "/first.1: ")

	if _, err := pool.Exec(t.Context(), `CREATE TABLE was AS SELECT * FROM nacre_chain; CREATE TABLE was_line AS SELECT * FROM nacre_chain_line`); err != nil {
		t.Fatal(err)
	}
	two.nacre("exec", "-q", "--session", "third", "--", "true").want(t, 0)
	if err := os.RemoveAll(two.state("")); err != nil {
		t.Fatal(err)
	}
	one.nacre("audit", "verify").want(t, 0, name+"/second.")
	for _, change := range [][2]string{
		{`DELETE FROM nacre_chain c WHERE machine = '` + name + `'; INSERT INTO nacre_chain SELECT * FROM was WHERE machine = '` + name + `';
			INSERT INTO nacre_chain_line SELECT * FROM was_line WHERE machine = '` + name + `'`, "is no longer whole in the store"},
		{`UPDATE nacre_chain_line SET lines = set_byte(lines, length(lines) / 2, get_byte(lines, length(lines) / 2) # 1) WHERE chain LIKE 'second.%'`, name},
		{`DELETE FROM nacre_chain WHERE chain LIKE 'second.%'`, name},
		{`UPDATE nacre_machine SET certificate = NULL WHERE name = '` + name + `'`, "did not certify"},
		{`DELETE FROM nacre_session; DELETE FROM nacre_chain WHERE machine = '` + name + `'; DELETE FROM nacre_machine WHERE name = '` + name + `'`, "the chain of machine " + name + " is missing from the store"},
		{`UPDATE nacre_authority SET key = '\x00'`, "is not the one"},
	} {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if done, err := tx.Exec(t.Context(), change[0]); err != nil || done.RowsAffected() == 0 {
			t.Fatalf("%s: %v, %v", change[0], done, err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		one.nacre("audit", "verify").want(t, 1, change[1])
	}
}

// a command that can be recorded nowhere does not run, and says what the store is.
func TestNothingRunsWhereItsStoreTakesNoRecord(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	one := sharing(t, address)
	one.nacre("exec", "-q", "--", "true").want(t, 0)
	store := func(address string) { one.env = append(one.env, "STORE="+address) } // the last one counts
	touch := func(says ...string) {
		t.Helper()
		one.nacre("exec", "-q", "--", "touch", "ran").want(t, 125, says...)
		if _, err := os.Stat(filepath.Join(one.work, "ran")); err == nil {
			t.Errorf("it ran: %v", says)
		}
	}
	store("postgres://nacre@/x?host=/nonexistent")
	touch("[store]", "does not answer")
	store(address + "&options=-c%20default_transaction_read_only%3Don")
	touch("[store]", "read-only")
	store(address)
	one.nacre("exec", "-q", "--", "true").want(t, 0) // which seals the chain that was begun and recorded nowhere else
	one.nacre("audit", "verify").want(t, 0)
	one.write("home/.config/nacre/config.toml", strings.ReplaceAll(storeConfig, "acme", "globex")+toolsConfig)
	touch("[store]", "another installation")
	one.write("home/.config/nacre/config.toml", storeConfig+toolsConfig)
	pool, err := pgxpool.New(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(t.Context(), `UPDATE nacre_version SET version = 99, oldest = 99 WHERE room = 'machines'`); err != nil {
		t.Fatal(err)
	}
	touch("[store]", "a newer nacre")
}

// a question of a session at one machine is listed, shown and answered at another one, once. What is
// revoked at one machine is refused at the other from then on. A machine whose store is away refuses every call, and
// says why.
func TestQuestionsAndRevocationsAreEveryMachines(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	one, two := sharing(t, address), sharing(t, address)
	one.admits(t, two)
	r := one.beginAsking()
	q := two.question()
	if q.Session != "asks" {
		t.Fatalf("have %+v", q)
	}
	two.nacre("approvals", "show", q.ID).want(t, 0, "delete_reminder", "R-1")
	two.nacre("approvals", "approve", q.ID).want(t, 0, "approved")
	finish(t, r).want(t, 0, "R-1")
	two.nacre("approvals", "deny", q.ID).want(t, 1, "no question")
	has(t, one.records("asks"), `"kind":"approval.claim"`, `"outcome":"approved"`)
	one.nacre("audit", "verify").want(t, 0)

	one.nacre("ledger", "list").want(t, 0, "asks")
	two.nacre("ledger", "list", "--json").want(t, 0, "/asks") // one ledger
	one.nacre("audit", "rotate-key").want(t, 0)
	if list := one.nacre("ledger", "list", "--json").stdout; !strings.Contains(list, "asks") || strings.Contains(list, "/asks") {
		t.Errorf("a machine's own sessions after its key was rotated: have\n%s", list)
	}

	two.nacre("grants", "revoke", "main", "--for", "8h").want(t, 0, "revoked")
	refused := one.nacre("exec", "-q", "--", "ipc", "create_reminder", `{"title":"pay","list":"Work"}`)
	if refused.code == 0 || strings.Contains(refused.stdout, "R-2") {
		t.Errorf("a call of a group that another machine revoked: have %d, %s%s", refused.code, refused.stdout, refused.stderr)
	}
	// What is revoked stays so where it was revoked and where it was refused, when somebody removes its row.
	pool, err := pgxpool.New(t.Context(), address)
	check(t, err)
	defer pool.Close()
	if done, err := pool.Exec(t.Context(), `DELETE FROM nacre_revocation`); err != nil || done.RowsAffected() != 1 {
		t.Fatal(done, err)
	}
	for _, i := range []*installation{one, two} {
		if have := i.nacre("exec", "-q", "--", "ipc", "create_reminder", `{"title":"pay","list":"Work"}`); have.code == 0 {
			t.Errorf("a call of a group that somebody let in again: have %s%s", have.stdout, have.stderr)
		}
		i.nacre("store", "verify").want(t, 1, `"main" is revoked on this machine and not in the store`)
	}
	away := sharing(t, "postgres://nacre@/x?host=/nonexistent")
	if have := away.nacre("exec", "-q", "--", "ipc", "create_reminder", `{"title":"pay","list":"Work"}`); have.code == 0 {
		t.Errorf("a call where nobody can tell what was revoked: have %s%s", have.stdout, have.stderr)
	}
	away.nacre("grants", "revoke", "main").want(t, 1, "[store]", "does not answer")
}

// X-04, K-35: machines that share a store count calls together: what one of them used up is
// refused at the other. What holds for one session is that session's alone.
func TestMachinesShareRates(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	first := sharing(t, address)
	first.admits(t)
	calls := []string{"exec", "-q", "--", "sh", "-c", `for n in 1 2; do ipc list_tools '{}'; done; true`}
	for _, c := range []struct{ rates, says string }{
		{"group = 3\nsession = 2\n", "all calls of group main (3 requests per 1m0s)"}, {"group = 60000\nsession = 2\n", ""},
	} {
		for n, says := range []string{"", c.says} {
			i := sharing(t, address)
			first.admits(t, i)
			i.write("home/.config/nacre/config.toml", storeConfig+"[groups.main]\n[rates]\n"+c.rates)
			have := i.nacre(calls...)
			have.want(t, 0, says)
			if refused := strings.Count(have.stdout+have.stderr, "RATE_LIMITED"); (refused > 0) != (says != "") {
				t.Errorf("%s, machine %d: %d of two calls were refused:\n%s%s", c.rates, n+1, refused, have.stdout, have.stderr)
			}
		}
	}
}

// the store's tables are brought forward, looked at, copied and put back with commands, and doctor says how the
// store is. Without a store, and with a copy that is none, they are refused.
func TestTheStoreIsLookedAfter(t *testing.T) {
	t.Parallel()
	server := testpeer.Postgres(t)
	one := sharing(t, server)
	one.nacre("store", "verify").want(t, 1, "nacre store migrate")
	one.nacre("store", "migrate").want(t, 0, "inbox", "approval")
	one.nacre("store", "verify").want(t, 0, "nacre_message", "it holds")
	one.nacre("schedule", "add", "--cron", "0 0 1 1 *", "--prompt", "water the plants").want(t, 0)
	one.nacre("grants", "revoke", "main/gone").want(t, 1, "revoked") // there was none
	copied := one.work + "/acme.copy"
	one.nacre("store", "backup", copied).want(t, 0, "installation acme")
	one.nacre("store", "backup", copied).want(t, 1, "exists")
	one.nacre("store", "verify", copied).want(t, 0, "whole")
	one.nacre("store", "restore", copied).want(t, 1, "empty one")
	has(t, one.nacre("doctor", "--no-turns").stdout, "of installation acme", "is admitted as")

	two := sharing(t, testpeer.Database(t, server, "second"))
	two.nacre("store", "restore", copied).want(t, 0, "restored")
	two.nacre("schedule", "list").want(t, 0, "water the plants")
	two.nacre("store", "verify").want(t, 0, "it holds")
	two.nacre("store", "verify", two.write("none.copy", "{}\n")).want(t, 1, "no whole copy")
	away := sharing(t, "postgres://nacre@/x?host=/nonexistent")
	away.nacre("store", "verify").want(t, 1, "does not answer")
	has(t, away.nacre("doctor", "--no-turns").stdout, "does not answer")
}

// what a machine remembered is moved into the store. What agents store at one machine is found, vouched for and
// erased at another, by commands and by their tools. The copy of a store holds it, and no session begins without it.
func TestMemoriesAreEveryMachines(t *testing.T) {
	t.Parallel()
	server := testpeer.Postgres(t)
	one := install(t)
	one.nacre("memory", "import", "--trusted", one.write("in.jsonl", exported("the walrus is shy"))).want(t, 0)
	one.env = append(one.env, "STORE="+server)
	two := sharing(t, server)
	for _, i := range []*installation{one, two} {
		i.write("home/.config/nacre/config.toml", storeConfig+"[groups.main]\ntools = [\"memory_store\", \"memory_search\"]\n")
	}
	one.admits(t, two)
	has(t, one.nacre("doctor", "--no-turns").stdout, "the memory of group main on this machine is not in the store")
	one.nacre("memory", "list").want(t, 1, "no memory yet")
	one.nacre("store", "migrate").want(t, 0, "memory")
	if left := one.holding("walrus is shy"); len(left) > 0 {
		t.Errorf("the machine keeps it in %v", left)
	}
	two.nacre("memory", "search", "walrus").want(t, 0, "walrus is shy", "/import-")
	one.nacre("exec", "-q", "--session", "s1", "--", "ipc", "memory_store", `{"type":"fact","content":"the quokka sleeps at noon"}`).want(t, 0)
	two.nacre("exec", "-q", "--", "ipc", "memory_search", `{"query":"quokka"}`).want(t, 0, "sleeps at noon")
	two.nacre("store", "verify").want(t, 0, "memory_entries", "it holds")
	copied := two.work + "/acme.copy"
	two.nacre("store", "backup", copied).want(t, 0)
	two.nacre("memory", "forget", "--match", "quokka").want(t, 0, "session on another machine", "--session s1")
	one.nacre("memory", "list").want(t, 0, "walrus")
	hasNo(t, one.nacre("memory", "search", "quokka").stdout, "sleeps at noon")
	restored := sharing(t, testpeer.Database(t, server, "second"))
	restored.nacre("store", "restore", copied).want(t, 0, "restored")
	restored.nacre("memory", "search", "quokka").want(t, 0, "sleeps at noon")
	restored.env = append(restored.env, "STORE=postgres://nacre@/x?host=/nonexistent")
	restored.nacre("memory", "list").want(t, 3, "does not answer")
}

// nacre store migrate moves a memory whole or not at all, wherever it is killed, and again it moves what is left.
// Nothing that was superseded is current in between, and no session that still uses the file loses what it remembers.
func TestAMemoryIsMovedWholeWhereverThatIsKilled(t *testing.T) {
	t.Parallel()
	server := testpeer.Postgres(t)
	one := install(t)
	one.write("home/.config/nacre/config.toml", "[groups.main]\ntools = [\"memory_store\", \"memory_search\"]\n")
	one.nacre("memory", "import", "--trusted", one.write("in.jsonl", `{"nacre_memory":1}
{"entry":{"id":"old","type":"fact","content":"the walrus is shy","created_at":"2026-02-18T14:30:00.000Z","superseded_by":"new"}}
{"entry":{"id":"new","type":"fact","content":"the walrus is bold","created_at":"2026-02-19T14:30:00.000Z"}}
{"entry":{"id":"from","type":"fact","content":"greet the walrus","created_at":"2026-02-20T14:30:00.000Z"}}
{"link":{"from":"from","to":"new","kind":"derived_from"}}
`)).want(t, 0)
	early := one.begin("exec", "-q", "--session", "early", "--", "sh", "-c", `ipc memory_store '{"type":"fact","content":"the quokka sleeps"}'; exec sleep 600`)
	eventually(t, "what the early session remembers", func() bool { return strings.Contains(one.nacre("memory", "search", "quokka").stdout, "sleeps") })
	one.env = append(one.env, "STORE="+server)
	one.write("home/.config/nacre/config.toml", storeConfig)
	one.nacre("store", "migrate").want(t, 1, "the memory of group main stays in its file", "still uses it")
	check(t, early.Process.Kill())
	_ = early.Wait() // as it was killed

	pool, err := pgxpool.New(t.Context(), server)
	check(t, err)
	defer pool.Close()
	count := func(of string) (n int) {
		t.Helper()
		check(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM "+of).Scan(&n))
		return n
	}
	for _, table := range []string{"memory_entries", "memory_edges", "memory_trail", "memory_used"} {
		tx, err := pool.Begin(t.Context())
		check(t, err)
		_, err = tx.Exec(t.Context(), "LOCK TABLE "+table+" IN SHARE MODE")
		check(t, err)
		moves := one.begin("store", "migrate")
		eventually(t, "that it comes to "+table, func() bool { return count("pg_locks WHERE NOT granted") > 0 })
		check(t, moves.Process.Kill())
		_ = moves.Wait() // as it was killed
		check(t, tx.Rollback(t.Context()))
		eventually(t, "the end of its connections", func() bool { return count("pg_stat_activity WHERE application_name = 'nacre'") == 0 })
		if n := count("memory_entries") + count("memory_trail") + count("memory_used"); n != 0 {
			t.Errorf("killed at %s, it has left %d rows", table, n)
		}
	}
	one.nacre("store", "migrate").want(t, 0, "memory")
	one.nacre("memory", "search", "walrus").want(t, 0, "is bold", "greet the walrus")
	hasNo(t, one.nacre("memory", "search", "walrus").stdout, "is shy")
	one.nacre("memory", "search", "quokka").want(t, 0, "sleeps")
	if left := one.holding("the walrus"); len(left) > 0 {
		t.Errorf("the machine keeps it in %v", left)
	}
	one.nacre("memory", "forget", "--yes", "--match", "bold").want(t, 0, "greet the walrus")
}
