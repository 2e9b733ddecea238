package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// block is what stands in a page between a fence and the next.
func block(t *testing.T, page, fence string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, "\n"+fence+"\n")
	text, _, closed := strings.Cut(rest, "\n```")
	if !found || !closed {
		t.Fatalf("no block %s in\n%s", fence, page)
	}
	return text + "\n"
}

// sh runs a line as a person does in a folder, and wants it to work.
func (i *installation) sh(dir, line string) string {
	i.t.Helper()
	command := i.command("sh", "-c", line)
	command.Dir = dir
	command.Env = append(command.Env, "GOFLAGS=", "GOWORK=off", "PYTHONDONTWRITEBYTECODE=1")
	out, err := command.CombinedOutput()
	if err != nil {
		i.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// newEnough puts a node that runs TypeScript as it is first on the PATH, and into
// the plugin where the system's, which is what its sandbox shows, does not.
func (i *installation) newEnough() (install func(dir string)) {
	i.t.Helper()
	named := os.Getenv("NACRE_NODE")
	if named == "" {
		testpeer.Missing(i.t, "node", "NACRE_NODE names no node that runs TypeScript")
	}
	for n, entry := range i.env {
		if path, found := strings.CutPrefix(entry, "PATH="); found {
			i.env[n] = "PATH=" + filepath.Dir(named) + ":" + path
		}
	}
	return func(dir string) {
		manifest := filepath.Join(dir, "manifest.json")
		if err := os.WriteFile(manifest, []byte(strings.Replace(fileText(manifest), `["node", `, `["./node", `, 1)), 0o600); err != nil {
			i.t.Fatal(err)
		}
		if out, err := exec.Command("cp", named, filepath.Join(dir, "node")).CombinedOutput(); err != nil {
			i.t.Fatalf("%v: %s", err, out)
		}
	}
}

// D-22: half an hour with nacre plugin new, as its pages say it, word for word:
// made, changed, tested, allowed, and used by an agent.
func TestANewPluginIsWhatItsPagesSay(t *testing.T) {
	t.Parallel()
	for lang, source := range map[string]string{"python": "handler.py", "typescript": "handler.ts", "go": "main.go"} {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			prepare := func(string) {}
			switch lang {
			case "python":
				testpeer.Need(t, "python3")
			case "typescript":
				prepare = i.newEnough()
			case "go":
				i.withGo()
			}
			made := i.nacre("plugin", "new", "my-notes", "--lang", lang)
			made.want(t, 0, "plugins/my-notes", "nacre plugin test")
			dir := filepath.Join(i.work, "home/.local/share/nacre/plugins/my-notes")
			prepare(dir)

			// the plugin's own part is changed, and so is its test
			for _, pattern := range []string{source, "*test*"} {
				files, _ := filepath.Glob(filepath.Join(dir, pattern)) // the pattern is ours
				for _, file := range files {
					if err := os.WriteFile(file, []byte(strings.ReplaceAll(fileText(file), `"added"`, `"noted"`)), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			page := fileText(filepath.Join(dir, "README.md"))
			said := ""
			for line := range strings.Lines(block(t, page, "```")) {
				said = i.sh(dir, line)
			}
			has(t, said, " 0 failed")

			i.write("home/.config/nacre/config.toml", block(t, page, "```toml"))
			skill := fileText(filepath.Join(dir, "skill/my-notes.md"))
			lines := regexp.MustCompile(`(?m)^    (ipc .*)$`).FindAllStringSubmatch(skill, -1)
			if len(lines) != 2 {
				t.Fatalf("the skill shows %d calls:\n%s", len(lines), skill)
			}
			used := i.nacre("exec", "-q", "--", "sh", "-c", lines[0][1]+"; "+lines[1][1]+"; cat ~/.claude/skills/my-notes/SKILL.md 2>/dev/null; true")
			used.want(t, 0)
			has(t, used.stdout, "noted", "the tests need the database")
			i.nacre("explain", "--json").want(t, 0)
			hasNo(t, i.nacre("explain", "--json", "--project", dir).stdout, `"idle"`)
		})
	}
}
