package gitconfig_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/corpus"
	"github.com/nacre-dev/nacre/internal/repo/gitconfig"
)

// U-26: what is read without git is what git lists. What git reads in another way, or its versions do, is left to it.
func TestAPlainConfigurationIsReadAsGitReadsIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		left bool
	}{
		"empty":                         {"", false},
		"as git writes it":              {"[core]\n\tbare = false\n[remote \"Origin\"]\n\turl = https://a.example/b.git\n\tfetch = +refs/heads/*:refs/remotes/Origin/*\n", false},
		"an identity":                   {"[user]\n\tname = Ann  von  Bee \n\temail=ann@example.com", false},
		"names in capitals":             {"[Core]\n\tAutoCRLF = Input\n[Branch \"Main\"]\n\tMerge = refs/heads/Main\n", false},
		"spaces around":                 {"  [ core]\n", true},
		"a line after the section":      {"[core] bare = false\n", true},
		"comments":                      {"# one\n; two\n[a]\n\t# three \\\n\tb = c # four\n\td = e;five\n", false},
		"quotes":                        {"[a]\n\tb = \"c # d\" e\n\tf = \" g \"\n\th = i\"j\"k\n\tl = \"\"\n", false},
		"escapes":                       {"[a]\n\tb = c\\td\\\\e\\\"f\\ng\n\th = \"i\\tj\"\n", false},
		"an alias that is a program":    {"[alias]\n\tlg = \"!f() { git log --format='%h %s' \\\"$@\\\"; }; f\"\n", false},
		"an empty value":                {"[credential \"https://a.example\"]\n\thelper =\n\thelper = !gh auth git-credential\n", false},
		"a name twice":                  {"[a]\n\tb = 1\n[c]\n\td = 2\n[a]\n\tb = 3\n", false},
		"a section with a name of none": {"[a \"\"]\n\tb = c\n", false},
		"another language":              {"[user]\n\tname = Jürgen 日本\n", false},
		"a bracket in a name":           {"[a \"b]c\"]\n\td = e\n", false},
		"a dot in a name":               {"[a \"b.c\"]\n\td-1 = e\n", false},
		"no value":                      {"[a]\n\tb\n", true},
		"a dot in a section":            {"[a.b]\n\tc = d\n", true},
		"an escape in a section":        {"[a \"b\\\"c\"]\n\td = e\n", true},
		"two spaces in a section":       {"[a  \"b\"]\n\tc = d\n", true},
		"a line that goes on":           {"[a]\n\tb = c \\\n d\n", true},
		"a tab in a value":              {"[a]\n\tb = c\td\n", true},
		"the end of lines of Windows":   {"[a]\r\n\tb = c\r\n", true},
		"an include":                    {"[include]\n\tpath = other\n", true},
		"an include for some":           {"[includeIf \"gitdir:/a/\"]\n\tpath = other\n", true},
		"a quote that does not end":     {"[a]\n\tb = \"c\n", true},
		"an escape that is none":        {"[a]\n\tb = \\q\n", true},
		"an escape at the end":          {"[a]\n\tb = c\\", true},
		"a name before any section":     {"a = b\n", true},
		"a name that begins with 1":     {"[a]\n\t1b = c\n", true},
		"a name that is none":           {"[a]\n\tb_c = d\n", true},
		"a letter like k":               {"[a]\n\t\u212a = d\n", true},
		"a section that does not end":   {"[a\n\tb = c\n", true},
		"a mark of the order of bytes":  {"\ufeff[a]\n\tb = c\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entries, ok := gitconfig.Plain(c.text)
			if ok == c.left {
				t.Fatalf("%q: %v, %v", c.text, entries, ok)
			}
			if c.left {
				return
			}
			var have strings.Builder
			for _, e := range entries {
				have.WriteString(e.Key + "\n" + e.Value + "\x00")
			}
			file := filepath.Join(t.TempDir(), "config")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if want, err := exec.Command("git", "config", "--file", file, "--list", "-z").Output(); err != nil || have.String() != string(want) {
				t.Errorf("%q\nhave %q\nwant %q, %v", c.text, have.String(), want, err)
			}
		})
	}
}

// FuzzPlain holds that what is read has a key of a section and a name, on one line.
func FuzzPlain(f *testing.F) {
	corpus.Add(f, "[core]\n\tbare = false # x\n[remote \"O\"]\n\turl = \"https://a.example/b;c\" d\\te\n")
	f.Fuzz(func(t *testing.T, text string) {
		entries, ok := gitconfig.Plain(text)
		if !ok && entries != nil {
			t.Errorf("%q: refused, and %v", text, entries)
		}
		for _, e := range entries {
			if section, name, two := strings.Cut(e.Key, "."); !two || section == "" || strings.HasSuffix(name, ".") || strings.ContainsAny(e.Key, "\n\r\x00") {
				t.Errorf("%q: %q", text, e.Key)
			}
		}
	})
}
