package main_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// what is minted on one machine is listed on another, refused there by what is revoked, and taken back
// there when its machine is lost. Who reads the database learns nothing of it, and who changes it is not believed. A
// machine that stood still mints nothing any more. What ends by itself goes by the database's clock.
func TestWhatALostMachineMintedIsTakenBackByAnother(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	address := testpeer.Postgres(t)
	pool, err := pgxpool.New(t.Context(), address)
	check(t, err)
	defer pool.Close()
	one, two := sharing(t, address), sharing(t, address)
	v, pinned, credential := one.minted()
	for _, i := range []*installation{one, two} {
		i.config(storeConfig + "[egress]\nallow = [\"example.com:443\"]\npin = { " + pinned + " }\n\n" + credential)
	}
	one.admits(t, two)
	name, _ := one.machineName(t)
	two.nacre("credentials", "sweep").want(t, 0, "nothing was left") // from now on the other seals to it
	count := func(where string) (n int) {
		t.Helper()
		check(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM nacre_lease WHERE "+where).Scan(&n))
		return n
	}
	does := func(statement string) {
		t.Helper()
		_, err := pool.Exec(t.Context(), statement)
		check(t, err)
	}
	asks := func(session string) *running {
		t.Helper()
		r := one.begin("exec", "-q", "--session", session, "--", "sh", "-c", "while curl -fsS https://example.com/v1/x; do sleep 0.1; done; exit 7")
		until(t, "what is minted for "+session, func() bool { return count("session = '"+session+"' AND handle IS NOT NULL") == 1 })
		minted := v.out()
		until(t, session+" to use it", func() bool { return v.wasShown(minted[len(minted)-1]) })
		return r
	}

	revoked := asks("revoked")
	two.nacre("credentials", "leases").want(t, 0, "vault", name+"/revoked", "main")
	two.nacre("grants", "revoke", "main/revoked").want(t, 0, "session main/revoked")
	finish(t, revoked).want(t, 7)
	if out := v.out(); len(out) > 0 || count("true") > 0 {
		t.Errorf("after its session %v are good, and the store has %d", out, count("true"))
	}

	killed, stopped := asks("killed"), asks("stopped")
	var rows string
	check(t, pool.QueryRow(t.Context(), "SELECT string_agg(l::text || encode(handle, 'escape'), ' ') FROM nacre_lease l").Scan(&rows))
	if strings.Contains(rows, "hvs.") {
		t.Errorf("the store tells what was minted:\n%s", rows)
	}
	does("CREATE TABLE kept AS SELECT * FROM nacre_lease")
	does("UPDATE nacre_lease l SET handle = k.handle FROM kept k WHERE k.lease <> l.lease") // each has the other's
	check(t, killed.Process.Kill())
	check(t, stopped.Process.Signal(syscall.SIGSTOP))
	made := len(v.out())
	until(t, "that they are lost", func() bool { return strings.Count(two.nacre("sessions", "list").stdout, "node_lost") == 2 })
	two.nacre("credentials", "leases").want(t, 0, name+"/killed (gone)", name+"/stopped (gone)")
	two.nacre("credentials", "sweep").want(t, 3, "is not taken back", "not sealed to this machine", "good until")
	if out := v.out(); len(out) != made || made != 2 {
		t.Errorf("with what each of them is not revoked with, %v of %d are good", out, made)
	}

	does("UPDATE nacre_lease l SET handle = k.handle FROM kept k WHERE k.lease = l.lease")
	does("UPDATE nacre_lease SET claimed = '-infinity'")
	node := two.serves("two", "--node", "two")
	until(t, "that all was taken back", func() bool { return len(v.out()) == 0 && count("true") == 0 })
	has(t, two.nacre("audit", "show", "--kind", "lease", "--outcome", "orphaned").stdout, name+"/killed", name+"/stopped")
	check(t, stopped.Process.Signal(syscall.SIGCONT))
	end := finish(t, stopped)
	end.want(t, 1)
	if !strings.Contains(end.stderr, "took it for lost") && !strings.Contains(end.stderr, "the lease of this node is over") { // as it learns it first
		t.Errorf("a machine that was over does not say so: %s", end.stderr)
	}
	if out := v.out(); len(out) > 0 {
		t.Errorf("a machine that was over minted %v", out)
	}

	does("INSERT INTO nacre_lease SELECT * FROM kept")
	does("UPDATE nacre_lease SET until = clock_timestamp(), claimed = 'infinity'")
	until(t, "that what has ended by itself goes", func() bool { return count("true") == 0 })
	node.stop()
	one.nacre("exec", "-q", "--", "true").want(t, 0) // which seals what the two left
	one.nacre("audit", "verify").want(t, 0)
}
