package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/policy"
)

// U-42: what differs between two policies, rule by rule.
func TestDiff(t *testing.T) {
	const (
		a = "[[rules]]\nname = \"a\"\naction = \"deny\"\nmatch = { capability = [\"a.*\"] }\n"
		b = "[[rules]]\nname = \"b\"\naction = \"ask\"\nmatch = { capability = [\"b.*\"] }\n"
		n = "[[rules]]\naction = \"allow\"\nmatch = { capability = [\"n.*\"] }\n"
		m = "[[rules]]\naction = \"allow\"\nmatch = { capability = [\"m.*\"] }\n"
	)
	for name, c := range map[string]struct{ old, now, want string }{
		"the same":                    {a + b, a + b, ""},
		"a comment and another line":  {a + b, "# x\n" + a + "\n" + b, ""},
		"added":                       {a, a + b, "added b"},
		"removed":                     {a + b, b, "removed a"},
		"moved":                       {a + b, b + a, "moved a"},
		"another verdict":             {a, strings.Replace(a, "deny", "allow", 1), "changed a"},
		"another match":               {a, strings.Replace(a, "a.*", "a.b", 1), "changed a"},
		"another default":             {a, "default = \"ask\"\n" + a, "changed default"},
		"one before those of no name": {n + m, a + n + m, "added a"},
		"one of no name":              {n + m, m, "removed rule-0"},
	} {
		t.Run(name, func(t *testing.T) {
			old, err := policy.Parse("old.toml", []byte(c.old))
			if err != nil {
				t.Fatal(err)
			}
			now, err := policy.Parse("now.toml", []byte(c.now))
			if err != nil {
				t.Fatal(err)
			}
			var have []string
			for _, change := range now.Diff(old) {
				have = append(have, fmt.Sprint(change.What, " ", change.Rule))
				if (change.Was == nil) != (change.What == "added") || (change.Is == nil) != (change.What == "removed") {
					t.Errorf("%+v", change)
				}
			}
			if strings.Join(have, ", ") != c.want {
				t.Errorf("have %q, want %q", have, c.want)
			}
		})
	}
}
