// Package compat_test runs real clients in the real sandbox through the real
// proxy against servers on loopback, and writes the table of
// docs/compatibility.md (M-24). A client that is not installed is a named
// skip, never a pass.
package compat_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

var write = flag.Bool("write", false, "write the table of docs/compatibility.md") //nolint:gochecknoglobals // a flag of the test binary

// bin is the folder of the binaries.
var bin string //nolint:gochecknoglobals // set by TestMain, read by tests

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(testpeer.Main(func() int { bin = testpeer.Built(); return m.Run() }))
}

// results are the cells of the table, in the order of the cases.
type results struct {
	versions map[string]string
	mu       sync.Mutex
	cells    map[string]string
}

func (r *results) set(c testCase, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cells[c.key()] = text
}

func (c testCase) key() string { return fmt.Sprint(c.client, "\x00", c.name, "\x00", c.onBench) }

// M-24, M-36: the tools people use work inside as they do outside, for the hosts that are listed, and for no others. Registries
// of packages are shown their credentials.
func TestCompatibility(t *testing.T) {
	if out, err := exec.Command(filepath.Join(bin, "nacre"), "exec", "-q", "--", "true").CombinedOutput(); err != nil {
		t.Fatalf("no sandbox here: %v\n%s", err, out)
	}
	upstream := newServers(t)
	passed, opened := newBench(t, upstream), newBench(t, upstream)
	opened.openAll(t)
	for _, b := range []*bench{passed, opened} {
		b.bringTools(t)
		b.bringCargo(t)
	}
	r := &results{versions: passed.versions(t), cells: map[string]string{}}
	// A bench's cases build on each other. The benches share nothing but the servers, and run side by side, since most of a
	// case is waiting for its client.
	t.Run("benches", func(t *testing.T) {
		t.Run("passed through", func(t *testing.T) {
			t.Parallel()
			for i, c := range cases() {
				t.Run(c.client+"/"+c.name, func(t *testing.T) { r.play(t, passed, fmt.Sprintf("case-%d", i), c) })
			}
		})
		t.Run("opened host", func(t *testing.T) {
			t.Parallel()
			for i, c := range cases() {
				t.Run(c.client+"/"+c.name, func(t *testing.T) {
					c.opened = c.needsTLS()
					r.play(t, opened, fmt.Sprintf("opened-%d", i), c)
					if _, want := registry(c.host); c.opened && want != "" {
						if have, _ := upstream.shown.LoadAndDelete(c.host); have != want {
							t.Errorf("the registry was shown %q, want %q", have, want)
						}
					}
				})
			}
		})
	})
	table := r.table(cases())
	t.Logf("\n%s", table)
	if *write && !t.Failed() {
		if err := writeDocument(table); err != nil {
			t.Fatal(err)
		}
	}
}

// play runs a case and notes what became of it.
func (r *results) play(t *testing.T, b *bench, session string, c testCase) {
	t.Helper()
	c.onBench = b.opened
	r.set(c, "skip: "+c.program+" is not installed")
	if r.versions[c.program] == "" {
		testpeer.Missing(t, c.program, c.program+" is not installed where the sandbox sees it")
	}
	if b.leavesOut(c) {
		r.set(c, "skip: "+c.because)
		t.Skip(c.because)
	}
	r.set(c, "FAILS")
	b.run(t, session, c)
	if !t.Failed() {
		r.set(c, c.expected())
	}
}

// testCase is one thing that one client does.
type testCase struct {
	client, name string
	// program is what must be there inside.
	program string
	// host is the name that the audit records must hold, and denied whether it is refused.
	host   string
	denied bool
	// script runs in the project folder; want is in what it prints.
	script, want string
	// unless is a shell test inside that, when it holds, leaves the case out, and why.
	unless, because string
	// opened says that a credential is for the host, so that its TLS is opened, and
	// onBench that the operator has such credentials. What is refused there, and
	// there alone, is for this reason.
	opened, onBench bool
	refusal         egress.Reason
}

// needsTLS reports whether the case speaks TLS to a host that is listed.
func (c testCase) needsTLS() bool {
	return !c.denied && !strings.Contains(c.name, "plain http") && !strings.HasSuffix(c.name, "over http")
}

func (c testCase) expected() string {
	switch {
	case c.opened && c.refusal != "":
		return "refused: " + string(c.refusal)
	case c.denied:
		return "denied"
	}
	return "ok"
}

// bench is an operator's machine: a home with a config, and a project.
type bench struct {
	project string
	// opened says that the operator has a credential for every host.
	opened bool
	env    []string
}

func newBench(t *testing.T, s *servers) *bench {
	t.Helper()
	home, err := os.MkdirTemp("", "nc") //nolint:usetesting // the path of a socket has at most 107 bytes, and t.TempDir names the test
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	b := &bench{project: filepath.Join(home, "project")}
	config := filepath.Join(home, ".config", "nacre")
	for _, dir := range []string{b.project, config, filepath.Join(home, "run")} {
		must(t, os.MkdirAll(dir, 0o700))
	}
	must(t, os.WriteFile(filepath.Join(config, "config.toml"), []byte(s.config()), 0o600))
	must(t, os.CopyFS(b.project, os.DirFS("testdata/project")))
	must(t, os.WriteFile(filepath.Join(b.project, "ca.pem"), s.authority, 0o644)) //nolint:gosec // the sandbox's user reads it
	must(t, os.Mkdir(filepath.Join(b.project, "npm"), 0o755))                     //nolint:gosec // the sandbox's user reads it
	must(t, s.lockfile(filepath.Join(b.project, "npm")))
	copyFile(t, testpeer.Fixture(t, "internal/egress/compat/testdata/goclient"), filepath.Join(b.project, "goclient"))
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "HOME=") && !ofThisMachine(entry) {
			b.env = append(b.env, entry)
		}
	}
	b.env = append(b.env, "HOME="+home, "XDG_RUNTIME_DIR="+filepath.Join(home, "run"))
	return b
}

// ofThisMachine tells a variable that says through what, and from where, this machine's tools fetch.
func ofThisMachine(entry string) bool {
	name, _, _ := strings.Cut(strings.ToUpper(entry), "=")
	return strings.HasSuffix(name, "_PROXY") || slices.ContainsFunc([]string{"SSL_CERT_", "XDG_", "GO", "PIP_", "NPM_CONFIG_", "NODE_", "CARGO_HTTP_"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

// bringTools copies the programs that the environment names to where the
// sandbox sees them: the agents' CLIs, and a Node in place of the system's. They are hundreds of megabytes:
// only a bench that runs them has them, as with cargo.
func (b *bench) bringTools(t *testing.T) {
	t.Helper()
	must(t, os.Mkdir(filepath.Join(b.project, "tools"), 0o755)) //nolint:gosec // the sandbox's user runs what is in it
	for name, variable := range map[string]string{"claude": "NACRE_CLAUDE", "codex": "NACRE_CODEX", "node": "NACRE_COMPAT_NODE"} {
		if path := os.Getenv(variable); path != "" {
			copyFile(t, path, filepath.Join(b.project, "tools", name))
		}
	}
}

// bringCargo copies a Rust that lies in a home into the project, where the
// sandbox sees it before the system's, as its user's PATH has it.
func (b *bench) bringCargo(t *testing.T) {
	t.Helper()
	out, err := exec.Command("rustc", "--print", "sysroot").Output()
	root := strings.TrimSpace(string(out))
	if err != nil || root == "/usr" {
		return // the case says that there is none, or asks the system's what it can do
	}
	libraries, err := filepath.Glob(filepath.Join(root, "lib", "*.so*"))
	must(t, err)
	for _, file := range append(libraries, filepath.Join(root, "bin", "cargo"), filepath.Join(root, "bin", "rustc")) {
		to := filepath.Join(b.project, "rust", filepath.Base(filepath.Dir(file)), filepath.Base(file))
		must(t, os.MkdirAll(filepath.Dir(to), 0o755)) //nolint:gosec // the sandbox's user runs it
		copyFile(t, file, to)
	}
}

// prelude is what tells each client which authority to trust. The proxy needs
// none of it: its variables are in every sandbox.
const prelude = `set -eu
ca=/workspace/ca.pem
export SSL_CERT_FILE=$ca GIT_SSL_CAINFO=$ca CURL_CA_BUNDLE=$ca NODE_EXTRA_CA_CERTS=$ca npm_config_cafile=$ca PIP_CERT=$ca CARGO_HTTP_CAINFO=$ca
export PATH=/workspace/tools:/workspace/rust/bin:$PATH:/workspace
`

// prelude is nothing on a bench whose hosts are opened: nacre tells the clients
// whom to trust, also wget, which reads no variable.
func (b *bench) prelude() string {
	if b.opened {
		return "set -eu\nca=$SSL_CERT_FILE\nexport PATH=/workspace/tools:/workspace/rust/bin:$PATH:/workspace\n"
	}
	return prelude
}

// registry tells of the host of a registry which scheme its credential has (M-36), and what it is shown then.
func registry(host string) (scheme, shown string) {
	switch strings.TrimSuffix(host, "."+domain) {
	case "npm":
		return `scheme = "bearer"`, "Bearer " + held
	case "pypi":
		return "scheme = \"basic\"\nuser = \"__token__\"", basic("__token__")
	case "crates":
		return `scheme = "raw"`, held
	case "goproxy":
		return "scheme = \"basic\"\nuser = \"ada\"", basic("ada")
	}
	return "", ""
}

func basic(user string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+held))
}

// openAll gives the operator a credential for every host.
func (b *bench) openAll(t *testing.T) {
	t.Helper()
	b.opened = true
	for _, site := range []string{"www", "git", "npm", "pypi", "crates", "goproxy", "apt", "model"} {
		scheme, _ := registry(site + "." + domain)
		b.withCredential(t, site+"."+domain, "methods = [\"GET\", \"HEAD\", \"POST\", \"PUT\"]\npaths = [\"/\"]\n"+scheme)
	}
}

func (b *bench) exec(args ...string) (string, error) {
	command := exec.Command(filepath.Join(bin, "nacre"), args...)
	command.Env = b.env
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	return out.String(), err
}

// leavesOut asks the client itself whether it can do what the case needs.
func (b *bench) leavesOut(c testCase) bool {
	if c.unless == "" {
		return false
	}
	_, err := b.exec("exec", "-q", "--project", b.project, "--", "sh", "-c", b.prelude()+c.unless)
	return err == nil
}

// run plays one case in a sandbox of its own and reads what the audit chain says of it.
func (b *bench) run(t *testing.T, session string, c testCase) {
	t.Helper()
	out, err := b.exec("exec", "-q", "--session", session, "--project", b.project, "--", "sh", "-c", b.prelude()+c.script)
	var exit *exec.ExitError
	refused := c.denied || c.opened && c.refusal != ""
	switch {
	case err != nil && !errors.As(err, &exit):
		t.Fatal(err)
	case (err != nil) != refused:
		t.Errorf("exit: %v, want refused=%v", err, refused)
	}
	if !strings.Contains(out, c.want) && refused == c.denied {
		t.Errorf("want %q", c.want)
	}
	records, err := b.exec("audit", "show", session, "--json")
	if err != nil {
		t.Errorf("no records: %v", err)
	}
	if !recorded(records, c) {
		t.Errorf("no such record of %s:\n%s", c.host, records)
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}

// recorded reports whether the chain holds the decision on the case's host, and
// for an allowed one its bytes (M-23).
func recorded(records string, c testCase) bool {
	want := []string{`"outcome":"closed"`, `"bytes_received":`, `"pinned":true`}
	switch {
	case c.opened && c.refusal != "":
		want = []string{`"outcome":"denied"`, `"reason":"` + string(c.refusal) + `"`}
	case c.opened:
		want = []string{`"outcome":"answered"`, `"credential":"`, `"opened":true`}
	case c.denied:
		want = []string{`"outcome":"denied"`}
	}
	want = append(want, `"kind":"egress"`, `"host":"`+c.host+`"`)
	return slices.ContainsFunc(strings.Split(records, "\n"), func(line string) bool {
		return !slices.ContainsFunc(want, func(part string) bool { return !strings.Contains(line, part) })
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// copyFile copies a program, whose bytes stay in the kernel. Nothing is started meanwhile, as with testpeer.WriteProgram.
func copyFile(t testing.TB, from, to string) {
	t.Helper()
	source, err := os.Open(from)
	must(t, err)
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755) //nolint:gosec // it is run
	if err == nil {
		_, err = io.Copy(target, source)
		err = errors.Join(err, target.Close())
	}
	must(t, errors.Join(err, source.Close()))
}
