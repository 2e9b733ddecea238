package person_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/person"
)

func upTo(c nacre.SafetyClass) *nacre.SafetyClass { return &c }

func directory() person.Directory {
	return person.Directory{Owner: "1000", Operators: person.Operators{
		"ada": {Identities: []string{"terminal:1000", "telegram:123"}, Ask: true, Approve: []string{"*"}, UpTo: upTo(nacre.Destructive), Stop: true, Config: true},
		"bob": {Identities: []string{"slack:T1:U1"}, Groups: []string{"family"}, Approve: []string{"tool"}, UpTo: upTo(nacre.Write)},
	}}
}

// M-46: 0 or two or more matches refuse; nobody configured is the owner alone, at the host.
func TestAnIdentityIsOnePersonsOrNobodys(t *testing.T) {
	twice := directory()
	twice.Paired = []person.Paired{{Operator: "bob", Identity: "telegram:123"}, {Operator: "bob", Identity: "telegram:9"}, {Operator: "gone", Identity: "telegram:7"}}
	owned := person.Directory{Owner: "1000"}
	for name, c := range map[string]struct {
		directory person.Directory
		identity  person.Identity
		want      string
	}{
		"one match":                                {directory(), "telegram:123", "ada"},
		"a paired identity":                        {twice, "telegram:9", "bob"},
		"an identity of two persons":               {twice, "telegram:123", ""},
		"an identity paired with a person removed": {twice, "telegram:7", ""},
		"a stranger":                               {directory(), "telegram:124", ""},
		"the owner, where others are configured":   {directory(), "web:1000", ""},
		"the owner at a terminal":                  {owned, "terminal:1000", person.Implicit},
		"the owner on the web page":                {owned, person.OfVisitor(1000), person.Implicit},
		"the owner's number in a chat":             {owned, "telegram:1000", ""},
		"another user":                             {owned, "terminal:1001", ""},
		"root":                                     {owned, "terminal:0", ""},
		"a directory without an owner":             {person.Directory{}, "terminal:0", ""},
		"nobody's identity":                        {person.Directory{}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := c.directory.Who(c.identity)
			if p.Name != c.want || (err == nil) != (c.want != "") {
				t.Errorf("have %q, %v, want %q", p.Name, err, c.want)
			}
			if err != nil && !errors.Is(err, person.ErrStranger) {
				t.Errorf("have %v, want a stranger", err)
			}
		})
	}
}

func TestIdentitiesAreImmutableIDs(t *testing.T) {
	for _, text := range []string{"terminal:0", "terminal:1000", "web:owner-1", "web:passkey:0123456789abcdef0123456789abcdef", "slack:T012AB:U0Z", "discord:123456789012345678", "telegram:42"} {
		if id, err := person.ParseIdentity(text); err != nil || string(id) != text {
			t.Errorf("%s: have %q, %v", text, id, err)
		}
	}
	for _, text := range []string{
		"", "ada", "terminal:", "terminal:ada", "terminal:01", "terminal:-1", "terminal:+1", "terminal:4294967295", "web:", "web:a b",
		"web:passkey:", "web:passkey:0123456789abcdef", "web:passkey:0123456789ABCDEF0123456789ABCDEF", "web:passkey:0123456789abcdef0123456789abcdef0", "web:token:a",
		"telegram:@ada", "telegram:-1001", "telegram:0", "telegram:٣", "slack:U1", "slack:T1:ada", "slack:t1:u1", "slack:T1:U1:X",
		"mail:ada@example.org", "Telegram:1", "telegram:1 ", "discord:" + strings.Repeat("9", 21), "web:" + strings.Repeat("a", 129),
	} {
		if id, err := person.ParseIdentity(text); err == nil {
			t.Errorf("%q was taken for %q", text, id)
		}
	}
}

// M-47: what each face may decide.
func TestAPersonDecidesWithinRightsAndFace(t *testing.T) {
	tool := person.Matter{Kind: person.Tool, Risk: nacre.Write, Group: "family"}
	yes := nacre.Ruling{Verdict: nacre.Allow}
	standing := func(long time.Duration, scope nacre.RulingScope) nacre.Ruling {
		return nacre.Ruling{Verdict: nacre.Allow, For: long, Scope: scope}
	}
	for name, c := range map[string]struct {
		identity person.Identity
		matter   person.Matter
		ruling   nacre.Ruling
		want     error
	}{
		"once in a chat":                    {"slack:T1:U1", tool, yes, nil},
		"three times in a chat":             {"slack:T1:U1", tool, nacre.Ruling{Verdict: nacre.Allow, For: time.Hour, Times: 3, Scope: nacre.ScopeSame}, nil},
		"an hour in a chat":                 {"slack:T1:U1", tool, standing(time.Hour, nacre.ScopeSame), nil},
		"more than an hour in a chat":       {"slack:T1:U1", tool, standing(time.Hour+1, nacre.ScopeSame), person.ErrFace},
		"more than an hour at the terminal": {"terminal:1000", tool, standing(8*time.Hour, nacre.ScopeTool), nil},
		"any arguments in a chat":           {"telegram:123", tool, standing(time.Minute, nacre.ScopeTool), person.ErrFace},
		"another group":                     {"slack:T1:U1", person.Matter{Kind: person.Tool, Risk: nacre.Write, Group: "work"}, yes, person.ErrRight},
		"another kind":                      {"slack:T1:U1", person.Matter{Kind: person.Egress, Risk: nacre.Write, Group: "family"}, yes, person.ErrRight},
		"a higher risk":                     {"slack:T1:U1", person.Matter{Kind: person.Tool, Group: "family"}, yes, person.ErrRight},
		"a denial of a higher risk":         {"slack:T1:U1", person.Matter{Kind: person.Tool, Group: "family"}, nacre.Ruling{}, nil},
		"a denial of another kind":          {"slack:T1:U1", person.Matter{Kind: person.Egress, Group: "family"}, nacre.Ruling{}, person.ErrRight},
		"what stands, in a chat":            {"telegram:123", person.Matter{Kind: person.Landing, Group: "family"}, yes, person.ErrFace},
		"what stands, at the terminal":      {"terminal:1000", person.Matter{Kind: person.Landing, Group: "family"}, yes, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := directory().Who(c.identity)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Answer(c.matter, c.ruling); !errors.Is(err, c.want) {
				t.Errorf("have %v, want %v", err, c.want)
			}
		})
	}
}

func TestStopAskAndConfigureAreRightsOfTheirOwn(t *testing.T) {
	bob, err := directory().Who("slack:T1:U1")
	if err != nil {
		t.Fatal(err)
	}
	if bob.Stop("family") == nil || bob.Ask("family") == nil || bob.Configure() == nil {
		t.Error("bob has rights that nobody gave him")
	}
	ada, err := directory().Who("telegram:123")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(ada.Stop("family"), ada.Ask("work")); err != nil {
		t.Error(err)
	}
	if err := ada.Configure(); !errors.Is(err, person.ErrFace) {
		t.Errorf("have %v, want no configuration from a chat", err)
	}
	if (person.Person{}).Answer(person.Matter{Kind: person.Tool}, nacre.Ruling{}) == nil {
		t.Error("the zero person denied a question")
	}
}

func TestOperatorsThatCannotBeActedOnAreRefused(t *testing.T) {
	for name, o := range map[string]person.Operators{
		"a name with markup":            {"<b>": {}},
		"an identity that is a name":    {"ada": {Identities: []string{"telegram:@ada"}}},
		"an identity that stands twice": {"ada": {Identities: []string{"telegram:1"}}, "bob": {Identities: []string{"telegram:1"}}},
		"an unknown kind":               {"ada": {Approve: []string{"everything"}, UpTo: upTo(nacre.Read)}},
		"approve without a risk":        {"ada": {Approve: []string{"tool"}}},
		"a risk without approve":        {"ada": {UpTo: upTo(nacre.Read)}},
		"a group that is none":          {"ada": {Groups: []string{"a b"}}},
	} {
		if o.Check() == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if err := directory().Operators.Check(); err != nil {
		t.Error(err)
	}
}

// A ruling passes only with a right that its person has: whatever the directory is.
func TestNoRulingPassesWithoutARight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.SampledFrom([]string{"terminal:1000", "telegram:123", "slack:T1:U1", "web:1000"})
		o := person.Operator{
			Identities: rapid.SliceOfN(id, 0, 3).Draw(t, "identities"), Groups: rapid.SliceOfN(rapid.SampledFrom([]string{"family", "work"}), 0, 2).Draw(t, "groups"),
			Approve: rapid.SliceOfN(rapid.SampledFrom([]string{"tool", "egress", "landing"}), 0, 2).Draw(t, "approve"), Config: rapid.Bool().Draw(t, "config"),
		}
		if rapid.Bool().Draw(t, "approves") {
			o.UpTo = upTo(nacre.SafetyClass(rapid.IntRange(0, 2).Draw(t, "up to")))
		}
		m := person.Matter{
			Kind: rapid.SampledFrom(person.Kinds()).Draw(t, "kind"), Risk: nacre.SafetyClass(rapid.IntRange(0, 2).Draw(t, "risk")),
			Group: nacre.Group(rapid.SampledFrom([]string{"family", "work", "other"}).Draw(t, "group")),
		}
		r := nacre.Ruling{Verdict: nacre.Allow, For: time.Duration(rapid.IntRange(0, 8).Draw(t, "hours")) * time.Hour}
		pressed := person.Identity(id.Draw(t, "pressed"))
		p, err := person.Directory{Owner: "1000", Operators: person.Operators{"ada": o}}.Who(pressed)
		if err != nil || p.Answer(m, r) != nil {
			return
		}
		holds := func(list []string, one string) bool {
			return strings.Contains(" "+strings.Join(list, " ")+" ", " "+one+" ")
		}
		if !holds(o.Identities, string(pressed)) || !holds(o.Approve, string(m.Kind)) || o.UpTo == nil || m.Risk < *o.UpTo ||
			len(o.Groups) > 0 && !holds(o.Groups, string(m.Group)) || !pressed.Face().Host() && (r.For > time.Hour || m.Kind == person.Landing) || m.Kind == person.Landing && !o.Config {
			t.Fatalf("%s answered %+v with %+v by the rights %+v", pressed, m, r, o)
		}
	})
}

func FuzzParseIdentity(f *testing.F) {
	f.Add("slack:T1:U1")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := person.ParseIdentity(text)
		if err != nil {
			return
		}
		if again, err := person.ParseIdentity(string(id)); err != nil || again != id || string(id) != text {
			t.Errorf("%q was read as %q, then as %q, %v", text, id, again, err)
		}
	})
}

// M-46: a question is shown at the services to whoever may answer it, if only by a denial. It is
// not shown at the host's faces, nor to those without the right, nor where an identity is two
// persons' or nobody's any more.
func TestWhoIsReached(t *testing.T) {
	t.Parallel()
	write, destructive := nacre.Write, nacre.Destructive
	d := person.Directory{
		Operators: person.Operators{
			"ada": {Identities: []string{"terminal:1000", "telegram:42", "discord:5"}, Approve: []string{"*"}, UpTo: &destructive},
			"bob": {Identities: []string{"telegram:43"}, Approve: []string{"tool"}, UpTo: &write, Groups: []string{"family"}},
			"eve": {Identities: []string{"telegram:44"}},
		},
		Paired: []person.Paired{{Operator: "bob", Identity: "telegram:50"}, {Operator: "ada", Identity: "telegram:43"}, {Operator: "gone", Identity: "telegram:51"}},
	}
	for name, c := range map[string]struct {
		of   person.Matter
		want string
	}{
		"a tool of the family":  {person.Matter{Kind: person.Tool, Risk: nacre.Destructive, Group: "family"}, " discord:5 telegram:42 telegram:50"},
		"a tool of another one": {person.Matter{Kind: person.Tool, Risk: nacre.Write, Group: "main"}, " discord:5 telegram:42"},
		"a host":                {person.Matter{Kind: person.Egress, Risk: nacre.Write, Group: "family"}, " discord:5 telegram:42"},
	} {
		have := ""
		for _, p := range d.Reached(c.of) {
			have += " " + string(p.Identity)
		}
		if have != c.want {
			t.Errorf("%s: have%s, want%s", name, have, c.want)
		}
	}
	if len(person.Directory{Owner: "1000"}.Reached(person.Matter{Kind: person.Tool})) != 0 {
		t.Error("where nobody is configured, somebody is reached")
	}
}
