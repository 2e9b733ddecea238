package main_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// clusterNode is one of the machines that share a store: its own disk, its own model, its
// own way to the database.
type clusterNode struct {
	*installation
	name  string
	model *scriptedmodel.Server
	wire  *testpeer.Wire
	// now is the process that serves, told what all that served have said.
	now  *serving
	told []func() string
}

func (n *clusterNode) starts() {
	n.t.Helper()
	n.now = n.serves(fmt.Sprintf("%s-%d", n.name, len(n.told)), "--node", n.name)
	n.told = append(n.told, n.now.said)
}

// heard is how often an agent of this machine began with a message, and in how many of
// these it was told that the message was begun before.
func (n *clusterNode) heard(message string) (begun, again int) {
	for _, r := range n.model.Requests() {
		body := string(r.Body)
		if !strings.Contains(body, message) || strings.Contains(body, "tool_result") {
			continue
		}
		begun++
		if strings.Contains(body, "begun before and interrupted") {
			again++
		}
	}
	return begun, again
}

// cluster is three nodes on one PostgreSQL.
type cluster struct {
	t     *testing.T
	pool  *pgxpool.Pool
	nodes []*clusterNode
	table []string
}

// newCluster lets nodes serve; how is what a route says of its conversations.
func newCluster(t *testing.T, how string, sessions int, names ...string) *cluster {
	t.Helper()
	c := restingCluster(t, how, sessions, names...)
	for _, n := range c.nodes {
		n.starts()
	}
	return c
}

// restingCluster is one whose nodes do not serve yet.
func restingCluster(t *testing.T, how string, sessions int, names ...string) *cluster {
	t.Helper()
	return restingClusterOn(t, testpeer.Postgres(t), how, sessions, names...)
}

func restingClusterOn(t *testing.T, address, how string, sessions int, names ...string) *cluster {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	c := &cluster{t: t, pool: pool}
	for _, name := range names {
		i, model := served(t, fmt.Sprintf("[store]\nurl_env = \"STORE\"\ninstallation = \"acme\"\n[serve]\nsessions = %d\n[groups.main]\ntools = [\"send_box\"]\n[[route]]\nchannel = \"box\"\nsender = \"ada\"\ngroup = \"main\"\nsession = %q\noperator = true\n", sessions, how),
			holds("true"), scriptedmodel.Turn{Text: "Done."})
		if name == "older" {
			i.older = os.Getenv("NACRE_OLDER")
		}
		n := &clusterNode{installation: i, name: name, model: model, wire: testpeer.NewWire(t, address)}
		i.env = append(i.env, "STORE="+n.wire.Address)
		c.nodes = append(c.nodes, n)
		c.nodes[0].admits(t, n.installation)
	}
	return c
}

func (c *cluster) count(query string, arguments ...any) (n int) {
	c.t.Helper()
	if err := c.pool.QueryRow(c.t.Context(), query, arguments...).Scan(&n); err != nil {
		c.t.Fatal(err)
	}
	return n
}

// fails lets one node fail while it works on two messages and a third waits, and gives
// who carried them on. All three are begun, and come to their end once.
func (c *cluster) fails(victim *clusterNode, how string, words []string, fail, back func()) {
	c.t.Helper()
	victim.say("ada:" + strings.Join(words, "\nada:"))
	until(c.t, "two agents of "+victim.name, func() bool {
		return c.count(`SELECT count(*) FROM nacre_message WHERE node = $1 AND begun = 1`, victim.name) == 2 && victim.heardOf(words) == 2
	})
	until(c.t, "the third message", func() bool { return c.count(`SELECT count(*) FROM nacre_message`) == len(words) })
	epoch := c.count(`SELECT epoch FROM nacre_node WHERE name = $1`, victim.name)
	began := time.Now()
	fail()
	until(c.t, "the failure to be seen", func() bool {
		return c.count(`SELECT epoch FROM nacre_node WHERE name = $1`, victim.name) > epoch
	})
	seen := time.Since(began)
	until(c.t, "another node to take over", func() bool { return c.count(`SELECT count(*) FROM nacre_message WHERE node = $1`, victim.name) == 0 })
	taken := time.Since(began)
	others := func() (n int) {
		for _, o := range c.nodes {
			if o != victim {
				n += o.heardOf(words)
			}
		}
		return n
	}
	until(c.t, "what was begun to be begun again", func() bool { return others() >= 2 })
	again := time.Since(began)
	until(c.t, "all of it to be dealt with", func() bool {
		for _, o := range c.nodes {
			if o != victim && o.heardOf(words) > 0 {
				o.release()
			}
		}
		return c.count(`SELECT count(*) FROM nacre_message`) == 0
	})
	var by []string
	for _, o := range c.nodes {
		if o != victim && o.heardOf(words) > 0 {
			by = append(by, o.name)
		}
		if err := os.Remove(o.state("groups/main/workspace/go")); err != nil && !os.IsNotExist(err) {
			c.t.Error(err)
		}
	}
	c.table = append(c.table, fmt.Sprintf("| %s, %s | %.1f s | %.1f s | %.1f s | %s | %d of %d |", victim.name, how, seen.Seconds(), taken.Seconds(), again.Seconds(),
		strings.Join(by, ", "), others(), len(words)))
	back()
	victim.starts()
}

func (n *clusterNode) heardOf(words []string) (begun int) {
	for _, w := range words {
		of, _ := n.heard(w)
		begun += of
	}
	return begun
}

// isOver is what a node says at its end that others declared over. isAlone is what one says that was cut off for longer
// than a record may wait for the store.
const (
	isOver  = "other nodes declared this node over"
	isAlone = "can no longer be written: [store]: the database does not answer"
)

// overs waits until a node that is over says one of the reasons, and ends.
func (c *cluster) overs(n *clusterNode, reasons ...string) {
	c.t.Helper()
	n.now.code = 1
	said := n.now.said
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.t.Logf("what %s said last:\n%s", n.name, said())
		}
	})
	until(c.t, n.name+" to learn that it is over", func() bool {
		return slices.ContainsFunc(reasons, func(reason string) bool { return strings.Contains(n.now.said(), reason) })
	})
	n.now.stop()
}

// check is what became of each message: it was begun once, or twice and told so then. It came to its end once.
func (c *cluster) check(words []string) {
	c.t.Helper()
	once, twice := 0, 0
	for _, w := range words {
		begun, again := 0, 0
		for _, n := range c.nodes {
			b, a := n.heard(w)
			begun, again = begun+b, again+a
		}
		switch {
		case begun == 1 && again == 0:
			once++
		case begun == 2 && again == 1:
			twice++
		default:
			c.t.Errorf("%s was begun %d times, and told so %d times", w, begun, again)
		}
	}
	ended := 0
	for _, n := range c.nodes {
		for _, said := range n.told {
			ended += strings.Count(said(), "agent.completed")
		}
	}
	if ended != len(words) {
		c.t.Errorf("%d turns came to their end, want %d", ended, len(words))
	}
	if n := c.count(`SELECT count(*) FROM nacre_message`); n != 0 {
		c.t.Errorf("%d messages are left", n)
	}
	c.table = append(c.table, "", fmt.Sprintf("%d messages: begun once %d, begun again after an interruption and told so %d, come to their end %d, left 0", len(words), once, twice, ended))
}

// ticks asks at one node for a tick of a schedule that was made at another, and kills the node whose agent has it in hand.
// A third carries it on, once.
func (c *cluster) ticks() {
	c.t.Helper()
	const task = "water the plants"
	c.nodes[0].nacre("schedule", "add", "--cron", "0 0 1 1 *", "--prompt", task).want(c.t, 0)
	list := c.nodes[1].nacre("schedule", "list", "--json")
	list.want(c.t, 0)
	has(c.t, list.stdout, task)
	var id string
	if err := c.pool.QueryRow(c.t.Context(), `SELECT id FROM schedules`).Scan(&id); err != nil {
		c.t.Fatal(err)
	}
	c.nodes[2].nacre("schedule", "run", id).want(c.t, 0)
	at := func() (found *clusterNode, begun int) {
		for _, n := range c.nodes {
			if of := n.heardOf([]string{task}); of > 0 {
				found, begun = n, begun+of
			}
		}
		return found, begun
	}
	until(c.t, "an agent of the tick", func() bool { _, begun := at(); return begun == 1 })
	victim, _ := at()
	began := time.Now()
	if err := victim.now.Process.Kill(); err != nil {
		c.t.Fatal(err)
	}
	until(c.t, "another node to carry it on", func() bool { _, begun := at(); return begun == 2 })
	again := time.Since(began)
	victim.now.stop()
	if n := victim.heardOf([]string{task}); n != 1 {
		c.t.Errorf("the node that was killed began with the tick %d times", n)
	}
	var by string
	for _, n := range c.nodes {
		if n != victim && n.heardOf([]string{task}) > 0 {
			by = n.name
			n.release()
		}
	}
	until(c.t, "the tick to be done", func() bool {
		return c.count(`SELECT count(*) FROM ticks WHERE state = 'done' AND begun = 2`) == 1
	})
	if n := c.count(`SELECT count(*) FROM ticks`); n != 1 {
		c.t.Errorf("have %d ticks, want 1", n)
	}
	c.table = append(c.table, fmt.Sprintf("1 tick of a schedule: begun at %s, which was killed, begun again at %s %.1f s later, done once", victim.name, by, again.Seconds()))
	victim.starts()
}

// M-52: three nodes, each with a disk of its own, share a PostgreSQL. One is killed, one stands still and goes
// on, and one is cut off. What each had in hand is begun again elsewhere, told that it was begun, and what waited is
// begun. Who comes back learns that it is over and ends. So it is with a tick of a schedule, which all nodes know. `make
// demo-cluster` shows the table.
func TestNodesCarryOnEachOthersMessages(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "fresh", 2, "one", "two", "three")
	one, two, three := c.nodes[0], c.nodes[1], c.nodes[2]
	c.table = []string{"| What failed | seen after | taken over after | begun again after | by | begun |", "|---|---|---|---|---|---|"}
	words := []string{"apples", "pears", "plums", "grapes", "cherries", "quinces", "figs", "dates", "limes"}
	c.fails(one, "killed", words[:3], func() {
		if err := one.now.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}, func() { one.now.stop() })
	c.fails(two, "stopped and resumed", words[3:6], func() {
		two.now.stands(t)
	}, func() {
		if err := two.now.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		c.overs(two, isOver)
	})
	c.fails(three, "cut off", words[6:], three.wire.Cut, func() {
		three.wire.Heal()
		c.overs(three, isOver, isAlone)
	})
	c.check(words)
	c.ticks()
	for _, n := range c.nodes {
		n.now.stop()
		n.nacre("audit", "verify").want(t, 0)
	}
	t.Log("\n" + strings.Join(c.table, "\n"))
}

// a node that is over says what to do, also where it learns it from a record that it may no longer write. Its own
// question about its lease is not answered there.
func TestANodeLearnsFromARecordThatItIsOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "fresh", 1, "one", "two")
	one := c.nodes[0]
	one.wire.Cut()
	until(t, "one to be declared over", func() bool {
		return c.count(`SELECT count(*) FROM nacre_node WHERE name = 'one' AND until = '-infinity'`) == 1
	})
	one.wire.Mute("SET until = clock_timestamp() + $4")
	one.nacre("plugin", "reload", "box") // which is recorded, and fails when it is not
	c.overs(one, isOver)
}

// waits is until one message waits for its turn, while one agent runs over all nodes.
func (c *cluster) waits() {
	c.t.Helper()
	until(c.t, "the message that has to wait", func() bool {
		return c.count(`SELECT count(*) FROM nacre_turn WHERE NOT began`) == 1
	})
	if n := c.count(`SELECT count(*) FROM nacre_turn WHERE began`); n != 1 {
		c.t.Errorf("%d agents run at once, want 1", n)
	}
}

// a conversation goes on at one node at a time, in the order in which its messages were taken at any. A group has as
// many agents as it may have over all nodes. What waits is begun as soon as its turn comes, also when the node before it
// was killed.
func TestNodesTakeTurns(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "resume", 2, "one", "two")
	one, two := c.nodes[0], c.nodes[1]
	one.say("ada:apples")
	until(t, "the first agent", func() bool { return one.heardOf([]string{"apples"}) == 1 })
	two.say("ada:pears")
	c.waits()
	if n := two.heardOf([]string{"pears"}); n != 0 {
		t.Fatalf("the conversation goes on at two nodes at once")
	}
	one.release()
	until(t, "the second agent", func() bool { return two.heardOf([]string{"pears"}) == 1 })
	if n := c.count(`SELECT count(*) FROM nacre_message`); n != 1 {
		t.Errorf("%d messages are left when the second begins, want its own alone", n)
	}
	if err := os.Remove(one.state("groups/main/workspace/go")); err != nil {
		t.Fatal(err)
	}
	one.say("ada:plums")
	c.waits()
	if err := two.now.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	until(t, "the agent that was killed to be carried on before the third", func() bool {
		begun, again := one.heard("pears")
		return begun == 1 && again == 1
	})
	c.waits()
	one.release()
	until(t, "all to be dealt with", func() bool {
		return c.count(`SELECT count(*) FROM nacre_message`) == 0 && c.count(`SELECT count(*) FROM nacre_turn`) == 0
	})
	if n := one.heardOf([]string{"plums"}); n != 1 {
		t.Errorf("the third message was begun %d times", n)
	}
	two.now.stop()
	one.now.stop()
	one.nacre("audit", "verify").want(t, 0)
}

// of one group as many agents run as it may have, over all nodes.
func TestNodesShareALimit(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "fresh", 1, "one", "two")
	one, two := c.nodes[0], c.nodes[1]
	one.say("ada:apples")
	until(t, "the first agent", func() bool { return one.heardOf([]string{"apples"}) == 1 })
	two.say("ada:pears")
	c.waits()
	one.release()
	until(t, "the second agent", func() bool { return two.heardOf([]string{"pears"}) == 1 })
	two.release()
	until(t, "all to be dealt with", func() bool { return c.count(`SELECT count(*) FROM nacre_message`) == 0 })
}

// a channel that may be served once is at one node: what comes to the handler of another
// one is not heard. It moves where its node stands still, is killed or ends in order, and one
// that comes back finds it taken.
func TestAChannelThatMayRunOnceMoves(t *testing.T) {
	t.Parallel()
	c := restingCluster(t, "fresh", 2, "one", "two")
	one, two := c.nodes[0], c.nodes[1]
	for _, n := range c.nodes {
		n.write("home/.local/share/nacre/plugins/box/manifest.json", strings.Replace(channelManifest, `"version"`, `"once": true, "version"`, 1))
		n.starts()
		until(t, n.name+" to serve", func() bool { return strings.Contains(n.now.said(), "plugin.ready") })
	}
	// leaves lets something come to the handler of a node that may not hear it.
	leaves := func(n *clusterNode, message string) {
		t.Helper()
		if err := os.Rename(n.write("next", message), n.state("data", "box", "inbox")); err != nil {
			t.Fatal(err)
		}
	}
	at := func(want string) bool {
		return c.count(`SELECT count(*) FROM nacre_post WHERE node = $1`, want) == 1 && c.count(`SELECT count(*) FROM nacre_post`) == 1
	}
	heard := func(n *clusterNode, word string) {
		t.Helper()
		until(t, word+" to be heard at "+n.name, func() bool { return n.heardOf([]string{word}) == 1 })
		n.release()
	}
	leaves(two, "ada:pears")
	one.say("ada:apples")
	heard(one, "apples")
	if !at("one") || two.heardOf([]string{"pears"}) != 0 {
		t.Fatal("the channel is served at two nodes")
	}
	one.now.stands(t)
	heard(two, "pears")
	if !at("two") {
		t.Error("the channel did not move")
	}
	if err := one.now.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	c.overs(one, isOver)
	one.starts()
	until(t, "one to serve again", func() bool { return strings.Contains(one.now.said(), "plugin.ready") })
	leaves(one, "ada:plums")
	two.say("ada:grapes")
	heard(two, "grapes")
	if !at("two") || one.heardOf([]string{"plums"}) != 0 {
		t.Error("the node that came back serves the channel, too")
	}
	two.now.stop() // in order
	heard(one, "plums")
	two.starts()
	until(t, "two to serve again", func() bool { return strings.Contains(two.now.said(), "plugin.ready") })
	leaves(two, "ada:figs")
	if err := one.now.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	heard(two, "figs")
	one.now.stop()
	two.now.stop()
	two.nacre("audit", "verify").want(t, 0) // one was killed: its next start seals its chain
}

// a node without a store, a store without a node, and an address in place of the
// name of its variable are refused, and the address is not repeated.
func TestStoresThatAreRefused(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.nacre("serve", "--node", "one").want(t, 2)
	i.write("home/.config/nacre/config.toml", "[store]\nurl_env = \"STORE\"\n")
	i.nacre("serve").want(t, 2)
	has(t, i.nacre("serve", "--node", "one").stderr, "[store] installation is missing")
	i.write("home/.config/nacre/config.toml", "[store]\nurl_env = \"STORE\"\ninstallation = \"acme\"\n")
	has(t, i.nacre("serve", "--node", "one").stderr, "holds no address of a PostgreSQL")
	for _, inline := range []string{"url_env = \"postgres://nacre:hunter2@db.example/x\"", "url = \"postgres://nacre:hunter2@db.example/x\""} {
		i.write("home/.config/nacre/config.toml", "[store]\n"+inline+"\n")
		have := i.nacre("serve", "--node", "one")
		have.want(t, 2)
		hasNo(t, have.stderr, "hunter2")
	}
}
