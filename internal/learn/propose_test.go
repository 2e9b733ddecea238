package learn_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/learn"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/urlpath"
)

// anyRefusal is a refusal of a few hosts, paths and reasons, hostile ones among them.
func anyRefusal(r *rand.Rand, n int) learn.Refusal {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	refusal := learn.Refusal{
		Seen:   at(n),
		Host:   pick("a.example.com", "b.example.com", "xn--bcher-kva.example", "localhost", "db.internal", "printer", "10.0.0.1", "", "0x7f.1", "*.example.com"),
		Port:   []uint16{80, 443, 8080, 0}[r.IntN(4)],
		Method: pick("CONNECT", "GET", "HEAD", "POST", "DELETE"),
		Reason: egress.Reason(pick("not_listed", "not_listed", "not_listed", "request_not_listed", "path_not_leased", "method_not_leased", "ip_literal", "address_refused", "malformed_request", "")),
	}
	if refusal.Method != "CONNECT" {
		refusal.Path = pick("/", "/pool/a", "/pool/a/b", "/pool/b", "/other", "/pool/../x", "/a%2fb", "", "//x", "/"+strings.Repeat("x", 600))
	}
	refusal.Group = nacre.Group(pick("main", "other"))
	refusal.Untrusted = r.IntN(3) == 0
	return refusal
}

// at is a record of a session.
func at(n int) learn.Seen {
	return learn.Seen{Session: "s", Group: "main", Chain: "s.1", Seq: uint64(n), Digest: fmt.Sprint(n)}
}

// facts are two credentials, of which one group holds both for one host, and three tools.
var facts = learn.Facts{
	Credentials: []learn.CredentialFacts{
		{Name: "one", Groups: []string{"main", "other"}, Host: "a.example.com:443"}, {Name: "two", Groups: []string{"other"}, Host: "a.example.com:443"},
		{Name: "inside", Groups: []string{"main"}, Host: "db.internal:443"},
	},
	Tools: map[nacre.ToolName]learn.ToolFacts{"look": {Reads: true}, "post": {}, "pay": {Sinks: true}},
}

// anyCall is a refused call of a few tools, with a few arguments.
func anyCall(r *rand.Rand, n int) learn.Call {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	c := learn.Call{
		Seen: at(n), Tool: nacre.ToolName(pick("look", "post", "pay", "gone")), Arguments: pick("", "aa", "bb", "cc"),
		Reason: nacre.ReasonCode(pick("group_not_allowed", "group_not_allowed", "unknown_tool", "explicit_deny_rule")), Doubtful: r.IntN(3) == 0,
	}
	c.Group, c.Untrusted = nacre.Group(pick("main", "other")), r.IntN(3) == 0
	return c
}

// anyFolder is one of a few folders that an agent asked for, of which some are shown to nobody.
func anyFolder(r *rand.Rand, n int) learn.Folder {
	f := learn.Folder{Seen: at(n), Folder: []string{"/srv/data", "/srv/lib", "/root/.ssh"}[r.IntN(3)]}
	if f.Folder == "/root/.ssh" {
		f.Why = "no agent is shown it"
	}
	f.Group, f.Untrusted = []nacre.Group{"main", "other"}[r.IntN(2)], r.IntN(3) == 0
	return f
}

// checkFolder holds a line against all folders that were asked for: it shows that one alone, stands apart, and
// says where nobody but untrusted text may have asked.
func checkFolder(t *testing.T, l learn.Line, folders []learn.Folder) {
	t.Helper()
	folders = slices.DeleteFunc(slices.Clone(folders), func(f learn.Folder) bool {
		return f.Folder != l.Folder || f.Group != l.Group || f.Why != ""
	})
	trusted := slices.ContainsFunc(folders, func(f learn.Folder) bool { return !f.Untrusted })
	if l.Host+string(l.Tool)+l.Credential+l.Wider != "" || len(folders) == 0 || l.Times != len(folders) || len(l.Apart) == 0 || (len(l.Apart) == 1) != trusted {
		t.Errorf("have %+v of %+v", l, folders)
	}
}

// allows tells whether a line lets a request through, by the documented meaning of a line.
func allows(l learn.Line, host, method, path string) bool {
	rule := l.Host
	if l.Credential != "" {
		rule += " with a credential"
	}
	if rule != host {
		return false
	}
	if len(l.Methods) == 0 {
		return method == "CONNECT"
	}
	return slices.Contains(l.Methods, method) && slices.ContainsFunc(l.Paths, func(p string) bool { return urlpath.Below(path, p) })
}

// ruleOf is how a refused request is named in [egress] allow.
func ruleOf(r learn.Refusal) string {
	text := fmt.Sprintf("%s:%d", r.Host, r.Port)
	if r.Method != "CONNECT" && strings.HasSuffix(string(r.Reason), "_not_leased") {
		return text + " with a credential"
	}
	if r.Method != "CONNECT" && r.Reason == egress.ReasonNotListed {
		text += "/http"
	}
	return text
}

// U-40: a proposal allows what was refused as not listed, nothing that was not seen, and nothing inside. Its
// "all" has neither what sends nor a path or arguments asked after text that nobody vouches for alone. A credential is
// used for what its group asked of its own host. A tool is called with what it was called with, and never
// where a value that does harm came from nobody knows where. The order of the refusals says nothing.
func TestAProposalAllowsExactlyWhatWasSeen(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var refusals []learn.Refusal
		for n := range r.IntN(40) {
			refusals = append(refusals, anyRefusal(r, n))
		}
		var calls []learn.Call
		for n := range r.IntN(20) {
			calls = append(calls, anyCall(r, 100+n))
		}
		var folders []learn.Folder
		for n := range r.IntN(10) {
			folders = append(folders, anyFolder(r, 200+n))
		}
		p := learn.Propose(learn.Refused{Hosts: refusals, Calls: calls, Folders: folders}, facts)
		counted := 0
		for _, left := range p.Left {
			counted += left.Times
			if left.Why == "" {
				t.Errorf("%q stays refused without a reason", left.What)
			}
		}
		for _, l := range p.Lines {
			counted += l.Times
			switch {
			case l.Tool != "":
				checkTool(t, l, calls)
			case l.Folder != "":
				checkFolder(t, l, folders)
			default:
				checkLine(t, l, refusals)
			}
		}
		if all := len(refusals) + len(calls) + len(folders); counted != all {
			t.Errorf("%d refusals, %d of them accounted for", all, counted)
		}
		mixed := slices.Clone(refusals)
		r.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		slices.Reverse(calls)
		if again := learn.Propose(learn.Refused{Hosts: mixed, Calls: calls, Folders: folders}, facts); !reflect.DeepEqual(again, p) {
			t.Fatalf("another order gives another proposal:\n%+v\n%+v", p, again)
		}
	}
}

func checkLine(t *testing.T, l learn.Line, refusals []learn.Refusal) {
	t.Helper()
	rule, err := posture.ParseEgress(l.Host)
	if err != nil || posture.Inside(rule.Host) || strings.Contains(l.Host, "*") {
		t.Errorf("%q is proposed: %v", l.Host, err)
	}
	seen := slices.DeleteFunc(slices.Clone(refusals), func(r learn.Refusal) bool { return !allows(l, ruleOf(r), r.Method, r.Path) })
	for _, path := range l.Paths {
		if !slices.ContainsFunc(seen, func(r learn.Refusal) bool { return r.Path == path }) {
			t.Errorf("%s %s was never asked", l.Host, path)
		}
	}
	if l.Credential != "" {
		seen = slices.DeleteFunc(seen, func(r learn.Refusal) bool { return r.Group != l.Group })
		if l.Group != "main" || l.Credential != "one" || l.Host != "a.example.com:443" || len(l.Apart) == 0 || len(l.Methods) != 1 {
			t.Errorf("%+v widens a credential", l)
		}
	}
	trusted := len(l.Paths) > 0 || slices.ContainsFunc(seen, func(r learn.Refusal) bool { return !r.Untrusted })
	for _, path := range l.Paths {
		trusted = trusted && slices.ContainsFunc(seen, func(r learn.Refusal) bool { return r.Path == path && !r.Untrusted })
	}
	sends := slices.Contains(l.Methods, "POST") || slices.Contains(l.Methods, "DELETE")
	if len(seen) == 0 || len(l.Apart) == 0 && (!trusted || sends) {
		t.Errorf("%+v is in all: seen %d times, trusted %v, sends %v", l, len(seen), trusted, sends)
	}
	if l.Wider == "/" || l.Wider != "" && !strings.HasSuffix(l.Wider, "/") {
		t.Errorf("%q is offered as a wider path", l.Wider)
	}
}

func checkTool(t *testing.T, l learn.Line, calls []learn.Call) {
	t.Helper()
	calls = slices.DeleteFunc(slices.Clone(calls), func(c learn.Call) bool {
		known := c.Reason == "group_not_allowed" || c.Reason == "unknown_tool" && c.Tool != "pay"
		return c.Tool != l.Tool || c.Group != l.Group || c.Doubtful || !known || c.Arguments == ""
	})
	trusted := true
	for _, a := range l.Arguments {
		trusted = trusted && slices.ContainsFunc(calls, func(c learn.Call) bool { return c.Arguments == a && !c.Untrusted })
	}
	calls = slices.DeleteFunc(calls, func(c learn.Call) bool { return !slices.Contains(l.Arguments, c.Arguments) })
	if l.Host != "" || l.Times != len(calls) || len(l.Arguments) == 0 || len(l.Apart) == 0 && (!trusted || l.Tool != "look") {
		t.Errorf("%+v is proposed of %+v", l, calls)
	}
	for _, a := range l.Arguments {
		if !slices.ContainsFunc(calls, func(c learn.Call) bool { return c.Arguments == a }) {
			t.Errorf("%s was never called with %s", l.Tool, a)
		}
	}
}

// U-40: hundreds of paths of one host are one folder that a person accepts by its number,
// and stay refused where they have none in common.
func TestManyPathsAreOneFolderOrNothing(t *testing.T) {
	t.Parallel()
	var together, apart []learn.Refusal
	for n := range 100 {
		r := learn.Refusal{Seen: at(n), Host: "a.example.com", Port: 80, Method: "GET", Reason: egress.ReasonNotListed}
		r.Path = fmt.Sprintf("/pool/main/%d.deb", n)
		together = append(together, r)
		r.Path = fmt.Sprintf("/%d.deb", n)
		apart = append(apart, r)
	}
	if p := learn.Propose(learn.Refused{Hosts: together}, learn.Facts{}); len(p.Lines) != 1 || !slices.Equal(p.Lines[0].Paths, []string{"/pool/main/"}) || len(p.Lines[0].Apart) != 1 {
		t.Errorf("have %+v", p)
	}
	if p := learn.Propose(learn.Refused{Hosts: apart}, learn.Facts{}); len(p.Lines) != 0 || len(p.Left) != 1 || p.Left[0].Times != 100 {
		t.Errorf("have %+v", p)
	}
}

func TestALineIsTriedOnOtherSessions(t *testing.T) {
	t.Parallel()
	r := learn.Refusal{Seen: at(0), Host: "a.example.com", Port: 443, Method: "CONNECT", Reason: egress.ReasonNotListed}
	c := learn.Call{Seen: at(1), Tool: "look", Reason: nacre.ReasonGroupNotAllowed, Arguments: "aa"}
	f := learn.Folder{Seen: at(2), Folder: "/srv/data"}
	p := learn.Propose(learn.Refused{Hosts: []learn.Refusal{r}, Calls: []learn.Call{c}, Folders: []learn.Folder{f}}, facts)
	other, another, below := r, c, f
	other.Port, another.Arguments, below.Folder = 8443, "bb", "/srv/data/below"
	p.Try(learn.Refused{Hosts: []learn.Refusal{r, r, other}, Calls: []learn.Call{c, another}, Folders: []learn.Folder{f, below, f, f}}, 2)
	if p.Lines[0].Others != 2 || p.Lines[1].Others != 1 || p.Lines[2].Others != 3 || p.Looked != 2 {
		t.Errorf("have %+v", p)
	}
}
