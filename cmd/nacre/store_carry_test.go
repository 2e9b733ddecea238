package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// carriers are machines of one store and one project. The first one's way to the store is a wire; the others
// serve, and carry on what is lost.
type carriers struct {
	t    *testing.T
	pool *pgxpool.Pool
	wire *testpeer.Wire
	one  *installation
	name string
	// of are the other machines by their names in the store.
	of map[string]*installation
	// node are the processes that serve on them.
	node map[string]*serving
}

// newCarriers are so many, of which the others do not serve yet.
func newCarriers(t *testing.T, others int) *carriers {
	t.Helper()
	address := testpeer.Postgres(t)
	pool, err := pgxpool.New(t.Context(), address)
	check(t, err)
	t.Cleanup(pool.Close)
	wire := testpeer.NewWire(t, address)
	c := &carriers{t: t, pool: pool, wire: wire, one: sharing(t, wire.Address), of: map[string]*installation{}, node: map[string]*serving{}}
	c.one.admits(t)
	c.name, _ = c.one.machineName(t)
	for range others {
		other := sharing(t, address)
		c.one.admits(t, other)
		name, _ := other.machineName(t)
		c.of[name] = other
	}
	c.one.project()
	return c
}

// serve starts a node on one of the others.
func (c *carriers) serve(name string) {
	c.t.Helper()
	c.node[name] = c.of[name].serves(fmt.Sprint("node-", len(c.node)), "--node", name[len(name)-4:])
}

func (c *carriers) serveAll() {
	c.t.Helper()
	for name := range c.of {
		c.serve(name)
	}
}

func (c *carriers) count(query string, arguments ...any) (n int) {
	c.t.Helper()
	check(c.t, c.pool.QueryRow(c.t.Context(), query, arguments...).Scan(&n))
	return n
}

// begin begins a run on the first machine that lands a line which names it.
func (c *carriers) begin(session, first string, commands ...string) *running {
	c.t.Helper()
	return c.one.begin("run", "Greet as "+session, "--brain", "replay", "--recording", c.one.recording(commands...), "--project", "p", "--session", session,
		"--check", first+"grep -q "+session+" greeting.txt")
}

// holdsUntil is an agent that waits until [carriers.release], and writes its line then.
func holdsUntil(session string) []string {
	return []string{"mkdir -p said/s; until ls said/s | grep -qx go; do sleep 0.05; done; rm -r said; echo " + session + " >>greeting.txt", "true"}
}

// awaits waits for the agent of a session that waits on a machine.
func (c *carriers) awaits(i *installation, session string) {
	c.t.Helper()
	eventually(c.t, "the agent of "+session, func() bool { return isThere(filepath.Join(i.workspace(session), "said/s")) })
}

// release lets an agent that waits go on.
func (c *carriers) release(i *installation, session string) {
	c.t.Helper()
	check(c.t, os.WriteFile(filepath.Join(i.workspace(session), "said/s/go"), nil, 0o666))
}

// carried waits for another machine to go on with a session's run, and gives its name and its session.
func (c *carriers) carried(session string) (machine, id string) {
	c.t.Helper()
	eventually(c.t, "that another node goes on with "+session, func() bool {
		var as string
		check(c.t, c.pool.QueryRow(c.t.Context(), `SELECT coalesce(max(taken), '') FROM nacre_run WHERE session = $1`, session).Scan(&as))
		machine, id, _ = strings.Cut(as, "/")
		return as != ""
	})
	return machine, id
}

// ends waits until a session that went on somewhere has such an outcome.
func (c *carriers) ends(machine, id, outcome string) {
	c.t.Helper()
	eventually(c.t, id+" to be "+outcome, func() bool {
		return strings.Contains(c.of[machine].nacre("sessions", "show", id).stdout, "outcome  "+outcome)
	})
}

// landed checks that each of some runs is in the project, once.
func (c *carriers) landed(sessions ...string) {
	c.t.Helper()
	if text, want := c.one.git("show", "main:greeting.txt"), strings.Join(append([]string{"hello"}, sessions...), "\n"); text != want {
		c.t.Errorf("have %q, want %q", text, want)
	}
	if log := c.one.git("log", "--format=%s"); strings.Count(log, "\n") != len(sessions) {
		c.t.Errorf("each run lands once:\n%s", log)
	}
}

// a machine that is cut off from the store in the middle of its run works on, and lands nothing when it comes back.
// The run lands once, at the machine that took it over.
func TestAMachineThatIsCutOffLandsNothing(t *testing.T) {
	t.Parallel()
	c := newCarriers(t, 1)
	c.serveAll()
	cut := c.begin("cut", "", holdsUntil("cut")...)
	c.awaits(c.one, "cut")
	c.wire.Cut()
	machine, id := c.carried("cut")
	c.awaits(c.of[machine], id)
	c.release(c.one, "cut")
	eventually(t, "the agent that is cut off to go on", func() bool { return !isThere(filepath.Join(c.one.workspace("cut"), "said")) })
	c.wire.Heal()
	finish(t, cut).want(t, 1, "nacre run --session cut") // which says who goes on
	c.landed()
	c.release(c.of[machine], id)
	c.ends(machine, id, "landed")
	c.landed("cut")
	c.one.nacre("run", "--session", "cut").want(t, 1, "the work goes on as", id)
	c.landed("cut")
	c.of[machine].nacre("audit", "verify").want(t, 0)
}

// whoever stands still in the middle of a landing moves the branch never, or has moved it, which the machine that
// takes the run over finds. The lock of the project that both have is git's, and whose it is nobody can tell. While it is
// held, the work of the other one is on a branch, and it says how to take it.
func TestWhoStandsStillInALandingLandsOnce(t *testing.T) {
	t.Parallel()
	c := newCarriers(t, 1)
	c.serveAll()
	stands := func(session, record, outcome string) (id string) {
		c.wire.Mute(record) // which is written, and not known to be
		still := c.begin(session, "", "echo "+session+" >>greeting.txt", "true")
		eventually(t, "the landing", c.wire.Muted)
		still.stands(t)
		c.wire.Heal()
		machine, id := c.carried(session)
		c.ends(machine, id, outcome)
		check(t, still.Process.Signal(syscall.SIGCONT))
		finish(t, still).want(t, 1, "nacre run --session "+session)
		return id
	}
	before := stands("before", "merge.intent", "not landed")
	c.landed()
	if text := c.one.git("show", "nacre/"+before+":greeting.txt"); text != "hello\nbefore" {
		t.Errorf("the work of who went on is not on its branch: %q", text)
	}
	stands("after", "merge.done", "landed")
	c.landed("after")
}

// the run of a machine that is lost goes on once more where the one that took it over is lost, too, and not a third
// time. What ends each machine that takes it would end all of them.
func TestARunIsCarriedOnTwice(t *testing.T) {
	t.Parallel()
	c := newCarriers(t, 2)
	first := c.begin("twice", "", holdsUntil("twice")...)
	c.awaits(c.one, "twice")
	c.serveAll()
	check(t, first.Process.Kill())
	_ = first.Wait() // as it was killed
	dies := func(session string) (machine, id string) {
		machine, id = c.carried(session)
		c.awaits(c.of[machine], id)
		check(t, c.node[machine].Process.Kill())
		c.node[machine].stop()
		return machine, id
	}
	second, as := dies("twice")
	third, last := dies(as)
	if second == third {
		t.Fatalf("%s carried its own run on", second)
	}
	c.serve(second)
	eventually(t, "what the fourth says", func() bool {
		return strings.Contains(c.of[second].nacre("audit", "show", "--kind", "event", "--outcome", "error").stdout, "each of 3 machines was lost with it")
	})
	c.landed()
	// Who knows better goes on with it where it was last.
	check(t, os.RemoveAll(filepath.Join(c.of[third].workspace(last), "said"))) // of the agent that was killed
	goesOn := c.of[third].begin("run", "--session", last)
	c.awaits(c.of[third], last)
	c.release(c.of[third], last)
	finish(t, goesOn).want(t, 0)
	c.landed("twice")
	c.one.nacre("sessions", "give-up", "twice").want(t, 0)
	c.one.nacre("audit", "verify").want(t, 0)
}

// a run that somebody changed in the database, or that is damaged there, goes on nowhere, and the node says
// which and why. Nothing of it is run, and it stays for its own machine.
func TestARunThatWasChangedInTheStoreGoesOnNowhere(t *testing.T) {
	t.Parallel()
	c := newCarriers(t, 1)
	const says = "its machine did not write what the store has of it"
	changes := map[string]string{
		"task":    `spec = convert_to(replace(convert_from(spec, 'UTF8'), 'Greet', 'Grab'), 'UTF8')`,
		"where":   `spec = convert_to(replace(convert_from(spec, 'UTF8'), '/p"', '/q"'), 'UTF8')`,
		"damaged": `spec = substring(spec for length(spec) - 1)`,
		"pack":    `pack = set_byte(pack, 40, get_byte(pack, 40) # 1)`,
		"empty":   `pack = ''`,
		"another": `work = 'another'`,
	}
	begun := map[string]*running{}
	for session := range changes {
		begun[session] = c.begin(session, "sleep 600; ", "echo changed >>greeting.txt", "true")
	}
	eventually(t, "the snapshots", func() bool { return c.count(`SELECT count(*) FROM nacre_run WHERE length(pack) > 0`) == len(changes) })
	for _, killed := range begun { // all of them: the next session of their machine would see to those before
		check(t, killed.Process.Kill())
		_ = killed.Wait() // as it was killed
	}
	for session, change := range changes {
		done, err := c.pool.Exec(t.Context(), `UPDATE nacre_run SET `+change+` WHERE session = $1`, session)
		check(t, err)
		if done.RowsAffected() != 1 {
			t.Fatalf("%s: nothing was changed", session)
		}
	}
	c.serveAll()
	for machine, other := range c.of {
		eventually(t, "what the node says of each", func() bool {
			said := other.nacre("audit", "show", "--kind", "event", "--outcome", "error").stdout
			for session := range changes {
				if !strings.Contains(said, "run "+c.name+"/"+session+": ") {
					return false
				}
			}
			return strings.Count(said, says) == len(changes)
		})
		c.node[machine].stop()
		if n := c.count(`SELECT count(*) FROM nacre_session WHERE machine = $1 AND kind = 'run'`, machine); n != 0 {
			t.Errorf("%d of them were begun", n)
		}
	}
	if n := c.count(`SELECT count(*) FROM nacre_run WHERE taken <> ''`); n != 0 {
		t.Errorf("%d runs that nobody can go on with are taken", n)
	}
	if n := c.count(`SELECT count(*) FROM nacre_session WHERE outcome LIKE 'carried on%'`); n != 0 {
		t.Errorf("of %d runs that nobody goes on with it is said that somebody does", n)
	}
	c.landed()
}
