package probe_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"

	"github.com/nacre-dev/nacre/internal/prove"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/sandbox/probe"
)

var update = flag.Bool("update", false, "write docs/security-matrix.md")

// asUser is set in the process that fills the ordinary user's column: where to
// write it.
const asUser = "NACRE_MATRIX_OUT"

// ordinaryUser is one that no machine has, for the second column.
const ordinaryUser = 54321

// column is one backend under one kind of user.
type column struct {
	Name string
	// Missing says why it could not be filled here.
	Missing string
	Cells   map[string]string
}

// cells of the matrix.
const (
	cellBlocked  = "blocked"
	cellReported = "reported"
	cellOpen     = "**not enforced**: "
	cellUntested = "not testable here: "
)

func TestMatrix(t *testing.T) { // M-11, M-12, M-13
	binary := helper(t)
	columns := fill(t, binary, backends(t, binary), nil)
	if out := os.Getenv(asUser); out != "" {
		text, err := json.Marshal(columns)
		must(t, err)
		must(t, os.WriteFile(out, text, 0o600))
		return
	}
	if os.Geteuid() == 0 {
		columns = append(columns[:1:1], append(ordinary(t, binary), columns[1:]...)...)
	}
	t.Logf("%d probes\n%s", len(probe.All()), show(columns))
	if *update {
		must(t, os.WriteFile(document, []byte(page(kept(t, columns))), 0o644))
	}
}

// fill runs the probes that are kept in every backend that this process can reach.
func fill(t *testing.T, binary string, all []reachable, keep func(probe.Probe) bool) []column {
	t.Helper()
	ground, err := prove.Lay(t.Context(), prove.Options{Program: binary, Keep: keep})
	must(t, err)
	t.Cleanup(ground.Lift)
	found := make([]map[string]probe.Finding, len(all))
	for i, b := range all {
		if b.missing == "" {
			found[i], err = ground.Sealed(t.Context(), b.backend)
			must(t, err)
		}
	}
	outside, err := ground.Controls(t.Context()) // last: it kills a decoy
	must(t, err)
	var columns []column
	for i, b := range all {
		c := column{Name: b.name, Missing: b.missing, Cells: map[string]string{}}
		if b.missing == "" {
			for _, row := range ground.Judge(b.backend, found[i], outside) {
				if !row.Outcome.Holds() {
					t.Errorf("%s: %s: %s: %s; %s", b.name, row.Probe, row.Outcome, row.Reason, row.Control)
				}
				c.Cells[row.Probe] = cell(row)
			}
		}
		columns = append(columns, c)
	}
	return columns
}

// cell is a row as the document has it.
func cell(row prove.Row) string {
	switch row.Outcome {
	case prove.Blocked:
		return cellBlocked
	case prove.Reported:
		return cellReported
	case prove.NotEnforced:
		return cellOpen + row.Reason
	case prove.NotTestable:
		return cellUntested + strings.ReplaceAll(row.Reason, "|", "/")
	}
	return strings.ToUpper(string(row.Outcome))
}

// reachable is a backend, or why there is none.
type reachable struct {
	name    string
	missing string
	backend sandbox.Backend
}

func backends(t *testing.T, binary string) []reachable {
	t.Helper()
	user := "user"
	if os.Geteuid() == 0 {
		user = "root"
	}
	n, err := sandbox.Open(sandbox.Options{Init: binary, StateDir: t.TempDir()})
	must(t, err)
	t.Cleanup(func() { _ = n.Close() })
	return append([]reachable{{name: "native, " + user, backend: n}}, engines(t, binary)...)
}

// ordinary fills the columns of a user without privilege, in a process of
// such a user's.
func ordinary(t *testing.T, binary string) []column {
	t.Helper()
	dir, err := os.MkdirTemp("", "probe") //nolint:usetesting // t.TempDir is closed to other users
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	must(t, exec.Command("cp", binary, filepath.Join(dir, "probe.test")).Run())
	home := filepath.Join(dir, "home")
	must(t, os.Mkdir(home, 0o700))
	must(t, os.Chown(home, ordinaryUser, ordinaryUser))
	cmd := exec.Command(filepath.Join(dir, "probe.test"), "-test.run", "^TestMatrix$", "-test.timeout", "5m")
	cmd.Dir = home
	cmd.Env = append(withoutEngines(os.Environ()), "HOME="+home, "TMPDIR="+home, asUser+"="+filepath.Join(home, "matrix"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUser, Gid: ordinaryUser}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("as an ordinary user: %v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(home, "matrix"))
	must(t, err)
	var columns []column
	must(t, json.Unmarshal(text, &columns))
	return columns[:1]
}

// withoutEngines takes root's engines out of an environment: an ordinary user
// cannot open their sockets.
func withoutEngines(env []string) []string {
	return slices.DeleteFunc(env, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains([]string{"NACRE_DOCKER", "NACRE_PODMAN", "NACRE_RUNSC"}, name)
	})
}

func show(columns []column) string {
	var text bytes.Buffer
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprint(table, "class\tprobe")
	for _, c := range columns {
		_, _ = fmt.Fprintf(table, "\t%s", c.Name)
	}
	_, _ = fmt.Fprintln(table)
	for _, p := range probe.All() {
		if !slices.ContainsFunc(columns, func(c column) bool { return c.Cells[p.Name] != "" }) {
			continue
		}
		_, _ = fmt.Fprintf(table, "%s\t%s", p.Class, p.Name)
		for _, c := range columns {
			_, _ = fmt.Fprintf(table, "\t%.60s", cellOf(c, p.Name))
		}
		_, _ = fmt.Fprintln(table)
	}
	_ = table.Flush()
	for _, c := range columns {
		_, _ = fmt.Fprintf(&text, "%s: %s\n", c.Name, summary(c))
	}
	return text.String()
}

func cellOf(c column, name string) string {
	if c.Missing != "" {
		return "–"
	}
	return c.Cells[name]
}

// summary counts a column's cells.
func summary(c column) string {
	if c.Missing != "" {
		return "not run: " + c.Missing
	}
	var blocked, told, open, untested int
	for _, cell := range c.Cells {
		switch {
		case cell == cellBlocked:
			blocked++
		case cell == cellReported:
			told++
		case strings.HasPrefix(cell, cellOpen):
			open++
		case strings.HasPrefix(cell, cellUntested):
			untested++
		}
	}
	return fmt.Sprintf("%d blocked, %d reported, %d not enforced, %d not testable here, of %d", blocked, told, open, untested, len(c.Cells))
}
