package pluginhost

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
)

// Limits of a plugin's skill.
const (
	maxSkillFiles = 16
	maxSkillFile  = 256 << 10 // bytes
)

// skillFile is the one file of the agentskills.io layout that is always there.
const skillFile = "SKILL.md"

// A Skill is what the agent reads about a plugin, in the agentskills.io
// layout: Files go into a folder called Name, read-only (D-31).
type Skill struct {
	// Name has lower-case letters, digits and dashes only, as the layout demands.
	Name  string
	Files []SkillFile
}

// A SkillFile is one markdown file of a skill.
type SkillFile struct {
	Name string
	Text string
}

// readSkill takes the author's skill/*.md: the file named after the plugin,
// else the first, becomes SKILL.md and the others lie beside it. A plugin
// without any gets one generated from its schemas.
func readSkill(f Found) (Skill, error) {
	s := Skill{Name: skillName(string(f.Name))}
	names, err := skillFiles(filepath.Join(f.Dir, skillFolder))
	if err != nil {
		return s, err
	}
	if len(names) == 0 {
		var caps []nacre.Capability
		for _, t := range f.Manifest.Provides.Tools {
			caps = append(caps, t.Capability(f.Name, f.Hash))
		}
		s.Files = []SkillFile{{skillFile, frontMatter(s.Name, f.Manifest.Description) + skillBody(string(f.Name), caps)}}
		return s, nil
	}
	main := mainSkill(names, string(f.Name))
	for _, name := range names {
		text, err := readBounded(filepath.Join(f.Dir, skillFolder, name), maxSkillFile)
		if err != nil {
			return s, err
		}
		file := SkillFile{name, strings.ToValidUTF8(string(text), "�")}
		if name == main {
			file = SkillFile{skillFile, frontMatter(s.Name, f.Manifest.Description) + withoutFrontMatter(file.Text)}
		}
		s.Files = append(s.Files, file)
	}
	return s, nil
}

func skillFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasSuffix(e.Name(), ".md") {
			names = append(names, e.Name())
		}
	}
	if len(names) > maxSkillFiles {
		return nil, fmt.Errorf("%s holds %d files, at most %d", dir, len(names), maxSkillFiles)
	}
	return names, nil
}

func mainSkill(names []string, plugin string) string {
	for _, name := range []string{skillFile, plugin + ".md"} {
		if slices.Contains(names, name) {
			return name
		}
	}
	return names[0]
}

// withoutFrontMatter drops an author's own: it could grant the brain more
// than words, such as tools to use without asking.
func withoutFrontMatter(text string) string {
	rest, ok := strings.CutPrefix(strings.ReplaceAll(text, "\r\n", "\n"), "---\n")
	if !ok {
		return text
	}
	if _, body, ok := strings.Cut(rest, "\n---\n"); ok {
		return body
	}
	return text[len("---"):] // never closed: no front matter, so it must not open as one
}

func frontMatter(name, description string) string {
	quoted, err := json.Marshal(oneLine(description)) // a JSON string is a YAML string
	if err != nil {
		quoted = []byte(`""`)
	}
	return "---\nname: " + name + "\ndescription: " + string(quoted) + "\n---\n\n"
}

// GenerateSkill writes a SKILL.md for tools that have none of their own, such
// as the intrinsics (D-31).
func GenerateSkill(name string, caps []nacre.Capability) string {
	names := make([]string, len(caps))
	for i, c := range caps {
		names[i] = string(c.Tool)
	}
	description := "Tools outside the sandbox: " + strings.Join(names, ", ") + ". Read this before you call one of them."
	return frontMatter(skillName(name), description) + skillBody(name, caps)
}

func skillBody(name string, caps []nacre.Capability) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nCall these tools with the `ipc` binary. The result comes on standard output;\nan error comes as JSON on standard error with exit code 1.\n", oneLine(name))
	for _, c := range caps {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n    ipc tool.invoke.%s '%s'\n", c.Tool, oneLine(c.Description), c.Tool, example(c.Schema))
		for _, line := range arguments(c.Schema) {
			b.WriteString("\n" + line)
		}
		if len(c.Files) > 0 {
			fmt.Fprintf(&b, "\nIn `%s` name files by their path from the project's folder. They are read when you call.", strings.Join(c.Files, "`, `"))
		}
		if c.HighRisk {
			b.WriteString("\nA person is asked before every call.")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// argumentsSchema is what a skill tells of a schema; the rest is the kernel's.
type argumentsSchema struct {
	Required   []string
	Properties map[string]struct {
		Type        any
		Description string
		Default     any
		Enum        []any
	}
}

func example(schema json.RawMessage) string {
	var s argumentsSchema
	if json.Unmarshal(schema, &s) != nil || len(s.Required) == 0 {
		return "{}"
	}
	args := map[string]string{}
	for _, name := range s.Required {
		args[name] = "..."
	}
	text, err := json.Marshal(args)
	if err != nil {
		return "{}"
	}
	return strings.ReplaceAll(string(text), "'", "")
}

func arguments(schema json.RawMessage) []string {
	var s argumentsSchema
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	lines := make([]string, 0, len(s.Properties))
	for name, p := range s.Properties {
		line := fmt.Sprintf("- `%s`", oneLine(name))
		if p.Type != nil {
			line += fmt.Sprintf(" (%v)", p.Type)
		}
		if slices.Contains(s.Required, name) {
			line += ", required"
		}
		if p.Default != nil {
			line += fmt.Sprintf(", default %v", p.Default)
		}
		if len(p.Enum) > 0 {
			line += fmt.Sprintf(", one of %v", p.Enum)
		}
		if p.Description != "" {
			line += ": " + p.Description
		}
		lines = append(lines, oneLine(line))
	}
	slices.Sort(lines)
	return lines
}

func skillName(name string) string {
	return strings.Trim(strings.ReplaceAll(strings.ToLower(name), "_", "-"), "-")
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
