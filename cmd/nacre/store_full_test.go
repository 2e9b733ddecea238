package main_test

import (
	"os"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// where the disk of the database is full to the last byte, a command that has to be recorded does not run, and
// says so. A node lives, begins nothing, and loses nothing of what it was told or had in hand. With room again all of it goes
// on, also where the server ended over it and was started once more.
func TestNothingIsLostWhereTheDatabaseIsFull(t *testing.T) {
	t.Parallel()
	if testpeer.Size(0, 1) == 0 {
		t.Skip("a record waits for 15 seconds until its session ends: NACRE_SIZE=full runs it")
	}
	address, fill, makeRoom, start := testpeer.SmallPostgres(t, 160)
	c := restingClusterOn(t, address, "fresh", 1, "one", "two")
	one, two := c.nodes[0], c.nodes[1]
	one.starts()
	runs := []string{"exec", "-q", "--", "echo", "it ran"}
	for _, full := range []struct {
		of   string
		ends func() // what the full disk keeps from working beside that
		back func()
	}{
		{"tables", func() {}, func() {}},
		{"log", func() { _, _ = c.pool.Exec(t.Context(), `SELECT pg_switch_wal()`) }, func() { start(); c.pool.Reset() }}, // which ends the server
	} {
		name := full.of
		first, second := "first "+name, "second "+name
		one.say("ada:" + first + "\nada:" + second)
		until(t, name+": an agent, and a message that waits", func() bool {
			return one.heardOf([]string{first}) == 1 && c.count(`SELECT count(*) FROM nacre_message`) == 2
		})
		fill()
		full.ends()
		refused := two.nacre(runs...)
		for n := 0; n < 50 && refused.code == 0; n++ { // what room its pages have is used first
			refused = two.nacre(runs...)
		}
		said := refused.stdout + refused.stderr
		if refused.code != 125 || !strings.Contains(said, "[store]") || !strings.Contains(said, "the disk of the database is full") && !strings.Contains(said, "does not answer") {
			t.Errorf("%s: have %d: %s", name, refused.code, said)
		}
		if strings.Contains(refused.stdout, "it ran") {
			t.Errorf("%s: it ran", name)
		}
		makeRoom()
		full.back()
		one.release()
		until(t, name+": all to be dealt with", func() bool { return c.count(`SELECT count(*) FROM nacre_message`) == 0 })
		if n := one.heardOf([]string{first, second}); n != 2 {
			t.Errorf("%s: two messages were begun %d times", name, n)
		}
		check(t, os.Remove(one.state("groups/main/workspace/go")))
		two.nacre(runs...).want(t, 0, "it ran")
	}
	one.now.stop()
	one.nacre("audit", "verify").want(t, 0)
	two.nacre("audit", "verify").want(t, 0)
}
