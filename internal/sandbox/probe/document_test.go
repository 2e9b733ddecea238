package probe_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/sandbox/probe"
)

// document holds the matrix; `make probes UPDATE=1` writes it.
const document = "../../../docs/security-matrix.md"

const intro = `# Security matrix

Written by ` + "`make probes UPDATE=1`" + `, which runs every escape probe of ` + "`internal/sandbox/probe`" + ` in each backend that this machine has,
as root and as an ordinary user. The posture is that which ` + "`nacre exec`" + ` gives a command on a folder bound directly. Each probe
is also run where nothing holds it: without a sandbox, and as the root of a user namespace. One that did not get out there proves
nothing, and its cell says so.

- **blocked**: it got out in the control run, and not in the sandbox.
- **reported**: the file can be left in the project, and the host's tools would act on it. nacre names it when the command
  ends (` + "`nacre exec`" + `) or before anything lands (` + "`nacre run`" + `, which works on a private clone).
- **not enforced**: it gets out, for the reason that is named; ` + "`nacre explain` and `nacre doctor`" + ` say the same.
- **not testable here**: it did not get out without a sandbox either, on this machine.

A backend that cannot be reached keeps the column that it had; probes that are newer than its last run say so.

`

func page(columns []column) string {
	var b strings.Builder
	b.WriteString(intro)
	for _, c := range columns {
		_, _ = fmt.Fprintf(&b, "- %s: %s\n", c.Name, summary(c))
	}
	class := ""
	for _, p := range probe.All() {
		if p.Class != class {
			class = p.Class
			b.WriteString("\n## " + titles()[class] + "\n\n| probe |")
			for _, c := range columns {
				b.WriteString(" " + c.Name + " |")
			}
			b.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
		}
		b.WriteString("| `" + p.Name + "` |")
		for _, c := range columns {
			b.WriteString(" " + cellOf(c, p.Name) + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// kept gives a backend that is not run here the column that the document has of it.
func kept(t *testing.T, columns []column) []column {
	t.Helper()
	text, err := os.ReadFile(document)
	must(t, err)
	var names []string
	old := map[string]map[string]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		switch {
		case strings.HasPrefix(line, "| probe |"):
			names = cells
		case strings.HasPrefix(line, "| `") && len(cells) == len(names):
			for i, cell := range cells[1:] {
				name := strings.TrimSpace(names[i+1])
				if old[name] == nil {
					old[name] = map[string]string{}
				}
				old[name][strings.Trim(cells[0], " `")] = strings.TrimSpace(cell)
			}
		}
	}
	for i, c := range columns {
		if c.Missing != "" && old[c.Name][probe.All()[0].Name] == cellBlocked {
			t.Logf("%s: not run here, its column stays: %s", c.Name, c.Missing)
			columns[i].Missing, columns[i].Cells = "", old[c.Name]
			for _, p := range probe.All() {
				if old[c.Name][p.Name] == "" {
					old[c.Name][p.Name] = cellUntested + "the engine has not been run since this probe was added"
				}
			}
		}
	}
	return columns
}

func titles() map[string]string {
	return map[string]string{
		"fs": "File system", "late": "Late execution", "net": "Network", "namespaces": "Namespaces", "privileges": "Privileges",
		"processes": "Processes", "proxy": "Egress proxy", "resources": "Resources", "secrets": "Secrets", "syscalls": "System calls",
	}
}

func TestTheDocumentHoldsEveryProbe(t *testing.T) { // M-13
	text, err := os.ReadFile(document)
	must(t, err)
	rows := map[string][]string{}
	var order []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if name := strings.Trim(cells[0], " `"); strings.HasPrefix(line, "| `") {
			rows[name] = cells[1:]
			order = append(order, name)
		}
	}
	for i, p := range probe.All() {
		if i >= len(order) || order[i] != p.Name {
			t.Fatalf("%s is not in its place in docs/security-matrix.md: run `make probes UPDATE=1`", p.Name)
		}
		for _, cell := range rows[p.Name] {
			if !explained(strings.TrimSpace(cell)) {
				t.Errorf("%s: the cell %q explains nothing", p.Name, cell)
			}
		}
	}
	if len(order) != len(probe.All()) {
		t.Errorf("the document has %d probes, the suite %d", len(order), len(probe.All()))
	}
}

func explained(cell string) bool {
	for _, form := range []string{cellOpen, cellUntested} {
		if reason, ok := strings.CutPrefix(cell, form); ok {
			return len(reason) > 8
		}
	}
	return cell == cellBlocked || cell == cellReported
}
