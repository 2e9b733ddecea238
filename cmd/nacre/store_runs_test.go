package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// the run of a machine that is lost goes on at another node, in that one's own copy of the project. Killed
// with a snapshot in the store, its agent does not work again. Stopped before there was one, it begins anew, and
// what was stopped ends as soon as it goes on. Each lands once. A machine that is back learns who goes on.
func TestARunOfALostMachineGoesOnAtAnother(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	pool, err := pgxpool.New(t.Context(), address)
	check(t, err)
	t.Cleanup(pool.Close)
	one, two := sharing(t, address), sharing(t, address)
	one.admits(t, two)
	name, _ := one.machineName(t)
	one.project()
	kept := func(session, what string) func() bool {
		return func() (there bool) {
			check(t, pool.QueryRow(t.Context(), `SELECT count(*) > 0 FROM nacre_run WHERE session = $1 AND `+what, session).Scan(&there))
			return there
		}
	}
	// carried is the session that goes on with one of the first machine's.
	carried := func(session string) (id string) {
		eventually(t, "that another node goes on with "+session, func() bool {
			check(t, pool.QueryRow(t.Context(), `SELECT coalesce(max(taken), '') FROM nacre_run WHERE session = $1`, session).Scan(&id))
			return id != ""
		})
		return filepath.Base(id)
	}
	begin := func(session, first string, commands ...string) *running {
		return one.begin("run", "Greet as "+session, "--brain", "replay", "--recording", one.recording(commands...), "--project", "p", "--session", session,
			"--check", first+"grep -q "+session+" greeting.txt")
	}
	killed := begin("killed", "sleep 2; ", "echo killed >>greeting.txt")
	eventually(t, "a snapshot in the store", kept("killed", "length(pack) > 0"))
	check(t, killed.Process.Kill())
	_ = killed.Wait() // as it was killed
	check(t, os.Rename(filepath.Join(one.work, "p"), filepath.Join(one.work, "gone")))
	if out, err := one.command("git", "clone", "-q", "gone", "p").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	node := two.serves("two", "--node", "two")
	id := carried("killed")
	eventually(t, "its landing", func() bool {
		return strings.Contains(one.git("log", "--format=%s"), "killed") || node.ProcessState != nil
	})
	if strings.Contains(two.records(id), `"kind":"brain.event"`) {
		t.Error("the agent worked again, though its snapshot was there")
	}
	two.nacre("sessions", "show", name+"/killed").want(t, 0, "node_lost", "carried on as", id)
	one.nacre("run", "--session", "killed").want(t, 1, "the work goes on as", id)

	stopped := begin("stopped", "", "mkdir -p said/s; until ls said/s | grep -qx go; do sleep 0.05; done; rm -r said; echo stopped >>greeting.txt", "true")
	eventually(t, "its base in the store", kept("stopped", "position('base' IN convert_from(reached, 'UTF8')) > 0"))
	check(t, stopped.Process.Signal(syscall.SIGSTOP))
	id = carried("stopped")
	eventually(t, "its agent at the other node", func() bool { _, err := os.Stat(filepath.Join(two.workspace(id), "said/s")); return err == nil })
	check(t, os.WriteFile(filepath.Join(two.workspace(id), "said/s/go"), nil, 0o666))
	eventually(t, "its landing", func() bool {
		return strings.Contains(one.git("log", "--format=%s"), "stopped") || node.ProcessState != nil
	})
	check(t, stopped.Process.Signal(syscall.SIGCONT))
	finish(t, stopped).want(t, 1, "took it for lost")

	if log := one.git("log", "--format=%s"); strings.Count(log, "\n") != 2 {
		t.Errorf("each run lands once:\n%s", log)
	}
	if text := one.git("show", "main:greeting.txt"); text != "hello\nkilled\nstopped" {
		t.Errorf("have %q", text)
	}
	one.nacre("sessions", "give-up", "killed").want(t, 0)
	eventually(t, "its end", func() bool { return strings.Contains(two.nacre("sessions", "show", id).stdout, "landed") })
	two.nacre("audit", "verify").want(t, 0)
	if kept("killed", "true")() || kept(id, "true")() || kept("stopped", "spec <> ''")() {
		t.Error("what runs were asked for stays in the store after their end")
	}
}
