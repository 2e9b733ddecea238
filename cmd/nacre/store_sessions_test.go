package main_test

import (
	"bufio"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/dna"
	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// what works on one machine is listed at another, where its records are shown once they were verified.
// What was killed, or stands still, is recorded there as lost, once, and its row in the ledger ends. What stood still ends
// as soon as it goes on.
func TestSessionsOfAllMachinesAreSeenAtEach(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t)
	one, two := sharing(t, address), sharing(t, address)
	one.admits(t, two)
	name, _ := two.machineName(t)
	killed := two.begin("exec", "-q", "--session", "killed", "--", "sleep", "600")
	stopped := two.begin("exec", "-q", "--session", "stopped", "--", "sleep", "600")
	eventually(t, "the sessions at the other machine", func() bool {
		list := one.nacre("ps").stdout
		return strings.Contains(list, name+"/killed") && strings.Contains(list, name+"/stopped")
	})
	runsIn(t, address, name, "killed")
	one.nacre("ledger", "list").want(t, 0, "running")
	one.nacre("sessions", "show", name+"/stopped").want(t, 0, "running", name)
	one.nacre("audit", "show", name+"/stopped").want(t, 0, "session.open", "sandbox.start")
	check(t, killed.Process.Kill())
	check(t, stopped.Process.Signal(syscall.SIGSTOP))
	eventually(t, "that they are lost", func() bool {
		return strings.Count(one.nacre("sessions", "list").stdout, "node_lost") == 2
	})
	one.nacre("ps").want(t, 0, "nothing works now")
	one.nacre("ledger", "list").want(t, 0, "interrupted")
	one.nacre("sessions", "list").want(t, 0)
	if told := one.nacre("audit", "show", "--kind", "session.close", "--outcome", "node_lost").stdout; strings.Count(told, "did not hear of its process") != 2 {
		t.Errorf("that two sessions are lost is to be recorded once each:\n%s", told)
	}
	check(t, stopped.Process.Signal(syscall.SIGCONT))
	finish(t, stopped).want(t, 1, "took it for lost")
	one.nacre("sessions", "show", name+"/stopped").want(t, 0, "node_lost")

	pool, err := pgxpool.New(t.Context(), address)
	check(t, err)
	defer pool.Close()
	for session, change := range map[string]string{
		"killed":  `UPDATE nacre_chain_line SET lines = set_byte(lines, 99, get_byte(lines, 99) # 1) WHERE chain = 'killed.1'`,
		"stopped": `DELETE FROM nacre_chain WHERE chain = 'stopped.1'`,
	} {
		_, err := pool.Exec(t.Context(), change)
		check(t, err)
		one.nacre("audit", "show", name+"/"+session).want(t, 1, "nothing is shown", "does not hold")
	}
	one.nacre("audit", "show", name+"/nobody").want(t, 1, "no such session")
}

// runsIn is a row of the ledger that says of an agent that it works in a session of a machine.
func runsIn(t *testing.T, address, machine, session string) {
	t.Helper()
	store := database.NewStore(func() string { return address }, "acme")
	defer store.Close()
	l, err := ledger.OpenOn(t.Context(), store, registry.MachineID(machine), time.Now)
	check(t, err)
	task := atom.Task{Parameters: atom.Parameters{Role: "edit-local", AgentID: "a1", Whitelist: []string{"a/**"}}, Body: "do it\n"}
	check(t, l.Begin(t.Context(), ledger.Start{
		ID: "a1", Role: "edit-local", Branch: "nacre/x", Session: session, Task: task.Canonical(), SpecSHA: task.SpecSHA(), Prompt: "You MUST.\n",
		DNA: dna.Compose(task, nil, [4]byte{1}).String(), Anchor: ledger.Anchor{Chain: "c", Hash: strings.Repeat("ab", 32)},
	}))
	check(t, l.Close())
}

// how much a session and a call of a tool ask of the store is known, and stays so: `make bench-cluster`
// prints it for docs/scale.md. What comes by time alone, the renewal of a lease, is left out.
func TestStatementsOfASession(t *testing.T) {
	t.Parallel()
	address := testpeer.Postgres(t, "log_statement=all")
	one := sharing(t, address)
	one.admits(t)
	at, err := url.Parse(address)
	check(t, err)
	said := func(args ...string) int {
		before := statements(t, at.Query().Get("host"))
		one.nacre(append([]string{"exec", "-q", "--"}, args...)...).want(t, 0)
		return statements(t, at.Query().Get("host")) - before
	}
	reminder := []string{"ipc", "create_reminder", `{"title":"pay","list":"Work"}`}
	said(reminder...) // which makes the tables
	session := said("true")
	call := said(reminder...) - session
	t.Logf("\n| `nacre exec true` | a call of a tool more |\n|---|---|\n| %d statements | %d statements |", session, call)
	if session < 5 || session > 20 || call < 3 || call > 20 {
		t.Errorf("a session is %d statements, and a call %d more", session, call)
	}
}

// statements counts those that a server was told, but for renewals of leases.
func statements(t *testing.T, folder string) (n int) {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(folder, "log"))
	check(t, err)
	for line := range strings.Lines(string(log)) {
		told := strings.Contains(line, "LOG:  statement: ") || strings.Contains(line, "LOG:  execute ")
		if told && !strings.Contains(line, "UPDATE nacre_node SET until") {
			n++
		}
	}
	return n
}

// a record whose answer is lost with its connection is written again over another one, and the
// session goes on.
func TestARecordWhoseAnswerIsLostStopsNothing(t *testing.T) {
	t.Parallel()
	c := restingCluster(t, "fresh", 1, "one")
	one := c.nodes[0]
	r := one.command(bin+"/nacre", "exec", "-q", "--session", "work", "--", "sh", "-c", "echo ready; read go; curl -s http://refused.example/; echo through")
	says, err := r.StdoutPipe()
	check(t, err)
	tell, err := r.StdinPipe()
	check(t, err)
	check(t, r.Start())
	said := bufio.NewReader(says)
	line, err := said.ReadString('\n')
	check(t, err)
	one.wire.Mute("work.1") // the chain: the statement itself is known to the server by then
	_, err = io.WriteString(tell, "go\n")
	check(t, err)
	eventually(t, "a record to be on its way", one.wire.Muted)
	one.wire.Heal()
	rest, err := io.ReadAll(said)
	check(t, errors.Join(err, r.Wait()))
	has(t, line+string(rest), "ready\n", "through\n")
	one.nacre("audit", "verify").want(t, 0)
}

// what a session came to is said again over another connection where the answer was lost with the first one: it is
// not lost for other machines.
func TestTheEndOfASessionIsSaidAgain(t *testing.T) {
	t.Parallel()
	c := restingCluster(t, "fresh", 1, "one")
	one := c.nodes[0]
	one.wire.Mute("UPDATE nacre_session SET state")
	r := one.begin("exec", "-q", "--session", "work", "--", "true")
	eventually(t, "its end to be on its way", one.wire.Muted)
	one.wire.Heal()
	finish(t, r).want(t, 0)
	if n := c.count(`SELECT count(*) FROM nacre_session WHERE session = 'work' AND state = 'done' AND ended IS NOT NULL`); n != 1 {
		t.Error("the store has not heard of its end")
	}
}

// a node that serves notices by itself that a session of another machine is lost, records it and says so in the
// store's list. What its machine removes leaves the list, and so does, by age, what a lost machine left in it.
func TestANodeNoticesLostSessionsByItself(t *testing.T) {
	t.Parallel()
	c := restingCluster(t, "fresh", 1, "one")
	one := c.nodes[0]
	two := sharing(t, one.wire.Address)
	one.admits(t, two)
	one.starts()
	killed := two.begin("exec", "-q", "--session", "killed", "--", "sleep", "600")
	state := func(session string) int {
		return c.count(`SELECT count(*) FROM nacre_session WHERE session = $1 AND state = 'node_lost' AND ended IS NOT NULL`, session)
	}
	eventually(t, "the session in the store", func() bool { return c.count(`SELECT count(*) FROM nacre_session WHERE session = 'killed'`) == 1 })
	check(t, killed.Process.Kill())
	eventually(t, "that it is lost", func() bool { return state("killed") == 1 })
	one.now.stop()
	one.nacre("audit", "show", "--kind", "session.close", "--outcome", "node_lost").want(t, 0, "did not hear of its process")

	two.nacre("exec", "-q", "--session", "mine", "--", "true").want(t, 0)
	two.nacre("sessions", "prune", "--older", "1h").want(t, 0)
	if n := c.count(`SELECT count(*) FROM nacre_session WHERE session = 'mine'`); n != 1 {
		t.Errorf("have %d rows of a session that is young", n)
	}
	two.nacre("sessions", "prune", "--keep", "1").want(t, 0, "killed")
	if n := c.count(`SELECT count(*) FROM nacre_session WHERE session = 'killed'`); n != 0 {
		t.Error("what its machine removed stays in the list")
	}
	_, err := c.pool.Exec(t.Context(), `UPDATE nacre_session SET ended = ended - interval '40 days' WHERE session = 'mine'`)
	check(t, err)
	_, err = c.pool.Exec(t.Context(), `INSERT INTO nacre_run SELECT machine, session, 'work', 'task', '', '' FROM nacre_session WHERE session = 'mine'`)
	check(t, err)
	one.write("home/.config/nacre/config.toml", storeConfig+"[retention]\nolder = \"30d\"\n")
	one.nacre("exec", "-q", "--", "true").want(t, 0)
	if n := c.count(`SELECT count(*) FROM nacre_session WHERE session = 'mine'`); n != 0 {
		t.Error("what ended long ago at another machine stays in the list")
	}
	if n := c.count(`SELECT count(*) FROM nacre_run`); n != 0 {
		t.Error("what its run was to do stays in the store")
	}
}
