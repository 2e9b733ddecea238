package main_test

import (
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
)

// K-35: what an operator sets as rates holds all calls together, whatever the tool. A group's own
// rates stand in for those of all.
func TestRatesHoldAllCallsTogether(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ config, says string }{
		"of a session":              {"[groups.main]\n[rates]\nsession = 3\n", "all calls of this session (3 requests per 1m0s)"},
		"of a principal":            {"[groups.main]\n[rates]\nprincipal = 3\n", "all calls of this principal (3 requests per 1m0s)"},
		"of a group":                {"[groups.main]\n[rates]\ngroup = 3\n", "all calls of group main (3 requests per 1m0s)"},
		"a group's own before all":  {"[groups.main.rates]\nsession = 3\n[rates]\nsession = 1\n", "all calls of this session (3 requests per 1m0s)"},
		"the least of them decides": {"[groups.main.rates]\nsession = 90\n[rates]\ngroup = 3\n", "all calls of group main (3 requests per 1m0s)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.write("home/.config/nacre/config.toml", c.config)
			r := i.nacre("exec", "-q", "--", "sh", "-c", `for n in 1 2; do ipc list_tools '{}'; ipc get_session_info '{}'; done; true`)
			r.want(t, 0, "RATE_LIMITED", c.says)
			if have := strings.Count(r.stdout+r.stderr, "RATE_LIMITED"); have != 1 {
				t.Errorf("%d of four calls were refused, want the last one:\n%s%s", have, r.stdout, r.stderr)
			}
		})
	}
}

// K-35: in nacre serve the rates of a principal and of a group hold over their sessions,
// each for itself, and another group does not notice.
func TestRatesHoldOverTheSessionsOfServe(t *testing.T) {
	t.Parallel()
	calls := scriptedmodel.Turn{Tools: []scriptedmodel.Tool{{
		Name: "shell", Input: []byte(`{"command":"for n in 1 2; do ipc list_tools '{}' 2>&1 | grep -o 'all calls of [^(]*' || echo well; done >> /workspace/group/log"}`),
	}}}
	routes := ""
	for sender, group := range map[string]string{"ada": "main", "bob": "other", "carol": "third"} {
		routes += "[[route]]\nchannel = \"box\"\nsender = \"" + sender + "\"\ngroup = \"" + group + "\"\n"
	}
	i, _ := served(t, "[groups.main]\n[groups.main.rates]\nprincipal = 5\n[groups.other]\n[groups.other.rates]\ngroup = 5\n[groups.third]\n"+routes,
		calls, scriptedmodel.Turn{Text: "Done."})
	s := i.serves("serve")
	for _, message := range []string{"ada:one", "ada:two", "bob:one", "bob:two", "carol:one", "carol:two"} {
		ended := strings.Count(s.said(), "agent.completed")
		i.say(message)
		until(t, message, func() bool { return strings.Count(s.said(), "agent.completed") > ended })
	}
	for group, last := range map[string]string{"main": "all calls of this principal ", "other": "all calls of group other ", "third": "well"} {
		if have, want := i.logged(group), "well\nwell\nwell\n"+last+"\n"; have != want {
			t.Errorf("group %s: have\n%swant\n%s", group, have, want)
		}
	}
	if n := i.countSessions("message"); n != 6 {
		t.Errorf("have %d sessions, want one for each message", n)
	}
	s.stop()
}
