package probe_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"

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
	columns := fill(t, binary, backends(t, binary), func(probe.Probe) bool { return true })
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
	target := decoys(t, binary)
	found := make([]map[string]probe.Finding, len(all))
	for i, b := range all {
		if b.missing == "" {
			found[i] = sealed(t, b.box, target, keep)
		}
	}
	outside := controls(t, binary, target, keep) // last: it kills a decoy
	var columns []column
	for i, b := range all {
		c := column{Name: b.name, Missing: b.missing, Cells: map[string]string{}}
		for _, name := range names(keep) {
			if b.missing == "" {
				c.Cells[name] = verdict(t, name, found[i][name], outside[name], b)
			}
		}
		columns = append(columns, c)
	}
	return columns
}

// verdict is the text of a cell. One that explains nothing fails the test.
func verdict(t *testing.T, name string, in, out probe.Finding, b reachable) string {
	t.Helper()
	i := slices.IndexFunc(probe.All(), func(p probe.Probe) bool { return p.Name == name })
	cell, problem := judge(probe.All()[i], in, out, b)
	if problem != "" {
		t.Errorf("%s: %s: %s", b.name, name, problem)
	}
	return cell
}

// reachable is a backend, or why there is none.
type reachable struct {
	name    string
	missing string
	box     box
}

func backends(t *testing.T, binary string) []reachable {
	t.Helper()
	sockets := proxy(t)
	lives(t, filepath.Join(sockets, "egress.sock"))
	user := "user"
	if os.Geteuid() == 0 {
		user = "root"
	}
	n, err := sandbox.Open(sandbox.Options{Init: binary, StateDir: t.TempDir()})
	must(t, err)
	t.Cleanup(func() { _ = n.Close() })
	return append([]reachable{{name: "native, " + user, box: box{n, binary, sockets}}}, engines(t, binary, sockets)...)
}

// lives wants the proxy to let through what is listed: one that refuses all
// would block every probe and prove nothing.
func lives(t *testing.T, socket string) {
	t.Helper()
	for _, request := range []string{"CONNECT " + allowedHost + ":443 HTTP/1.1\r\nHost: " + allowedHost + ":443\r\n\r\n",
		"GET http://" + plainHost + "/ HTTP/1.1\r\nHost: " + plainHost + "\r\n\r\n"} {
		c, err := net.Dial("unix", socket)
		must(t, err)
		_, err = c.Write([]byte(request))
		must(t, err)
		answer := make([]byte, 12)
		if _, err := c.Read(answer); err != nil || !bytes.HasSuffix(answer, []byte(" 200")) {
			t.Fatalf("the proxy refused %q: %q %v", request, answer, err)
		}
		must(t, c.Close())
	}
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

// known are the limits that a machine or backend may be unable to enforce: the
// word that a line of NotEnforced begins with, for each probe that it explains.
func known() map[string]string {
	return map[string]string{
		"res-project-disk": "disk:", "res-project-inodes": "disk:", "res-shared-memory": "memory:", "res-memfd": "memory:",
		"res-memory": "memory:", "res-sysv-memory": "memory:", "res-lock-memory": "memory:", "res-forks": "processes:",
		"res-inodes": "files:", "res-many-files": "files:", "res-inotify": "watches:",
		"sec-parent-environ": "token:", "proc-init-priority": "init:", "proc-init-affinity": "init:",
		endsInit: "ending:", "proc-init-descriptors": "ending:", "proc-init-namespace": "kernel:", "net-low-port": "ports:",
		"priv-uid-map": "kernel:", "sec-sys": "kernel:", "fs-lock": "locks:", "proc-host-in-flight": "user:",
	}
}

// judge fills one cell of the matrix; no cell goes without an explanation.
func judge(p probe.Probe, in, out probe.Finding, b reachable) (cell, problem string) {
	if in.Verdict == probe.Escaped {
		for _, missing := range b.box.backend.NotEnforced() {
			if word := known()[p.Name]; word != "" && strings.HasPrefix(missing, word) {
				return cellOpen + missing, ""
			}
		}
		return "ESCAPED", "escaped: " + in.Reason
	}
	switch {
	case in.Verdict == "":
		return "NO ANSWER", "no finding from inside"
	case out.Verdict != probe.Escaped && p.Control == probe.Always && out.Verdict != probe.Untestable:
		return "UNPROVEN", fmt.Sprintf("the control run says %s: %s", out.Verdict, out.Reason)
	case out.Verdict != probe.Escaped && p.Control == probe.AsRoot && os.Geteuid() == 0:
		return "UNPROVEN", fmt.Sprintf("the control run as root says %s: %s", out.Verdict, out.Reason)
	case out.Verdict != probe.Escaped:
		return cellUntested + plain(out.Reason) + ", without a sandbox too", ""
	case in.Verdict == probe.Untestable:
		return cellUntested + plain(in.Reason), ""
	case in.Verdict == reported:
		return cellReported, ""
	}
	return cellBlocked, ""
}

var paths = regexp.MustCompile(`/[^ :]*/|\.nacre-probe-\d+ ?`)

// plain takes out of a reason what differs from run to run.
func plain(reason string) string {
	reason = strings.TrimSpace(paths.ReplaceAllString(reason, ""))
	return strings.ReplaceAll(reason[:min(len(reason), 80)], "|", "/")
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
