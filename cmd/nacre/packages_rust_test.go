package main_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// newRustSite is a sparse registry with one crate, and the operator's word that it
// stands in the place of the usual one.
func newRustSite(t *testing.T, i *installation) *fetchSite {
	t.Helper()
	files := map[string]string{"/index/config.json": `{"dl":"http://packages.test/crates/{crate}-{version}.crate"}`}
	for version, says := range map[string]string{"1.0.0": "dep works", "1.1.0": "chosen by the work"} {
		crate := tarred(t, map[string]string{
			"dep-" + version + "/Cargo.toml": "[package]\nname = \"dep\"\nversion = \"" + version + "\"\nedition = \"2021\"\n",
			"dep-" + version + "/src/lib.rs": "pub fn says() -> &'static str { \"" + says + "\" }\n",
			// It says that it ran while something was fetched.
			"dep-" + version + "/build.rs": "fn main() { assert!(std::net::TcpStream::connect(\"127.0.0.1:3128\").is_err()) }\n",
		})
		files["/crates/dep-"+version+".crate"] = crate
		files["/index/3/d/dep"] += fmt.Sprintf(`{"name":"dep","vers":%q,"deps":[],"cksum":"%x","features":{},"yanked":false}`+"\n", version, sha256.Sum256([]byte(crate)))
	}
	i.write("home/.cargo/config.toml", "[source.crates-io]\nreplace-with = \"ours\"\n[source.ours]\nregistry = \"sparse+http://packages.test/index/\"\n")
	return newFetchSite(t, files)
}

// cargoLock pins one version of dep; what is else of it is changed by old and new.
func cargoLock(site *fetchSite, version string, change ...string) string {
	text := fmt.Sprintf("version = 3\n\n[[package]]\nname = \"dep\"\nversion = %q\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\nchecksum = \"%x\"\n\n"+
		"[[package]]\nname = \"p\"\nversion = \"0.1.0\"\ndependencies = [\n \"dep\",\n]\n", version, sha256.Sum256([]byte(site.files["/crates/dep-"+version+".crate"])))
	return strings.NewReplacer(change...).Replace(text)
}

// rustProject is a repository whose test needs dep, and which wants it from elsewhere.
func (i *installation) rustProject(lock string) {
	i.t.Helper()
	i.write("p/Cargo.toml", "[package]\nname = \"p\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\ndep = \"1\"\n")
	i.write("p/Cargo.lock", lock)
	i.write("p/.gitignore", "target\n")
	i.write("p/src/lib.rs", "pub fn say() -> &'static str {\n    dep::says()\n}\n")
	i.write("p/tests/it.rs", "#[test]\nfn says() {\n    assert!(p::say() == \"dep works\");\n}\n")
	i.write("p/rust-toolchain.toml", "[toolchain]\nchannel = \"1.0.0\"\n")
	i.write("p/.nacre/roles/tested.toml", quality)
	i.project()
	i.withRust()
}

// withRust lets cargo be found.
func (i *installation) withRust() {
	i.t.Helper()
	root, err := exec.Command("rustc", "--print", "sysroot").Output()
	if err != nil {
		i.t.Fatal(err)
	}
	// The home is another one, in which rustup finds no compiler.
	i.env = append(i.env, "CARGO_HOME=", "PATH="+bin+":"+filepath.Join(strings.TrimSpace(string(root)), "bin")+":"+os.Getenv("PATH"))
}

// sparse is the first cargo that reads sparse registries without a switch.
const sparse = "1.68"

// needCargo wants one that reads sparse registries, as Debian's of 2023 does not. An
// ordinary user has none where it is root's own.
func needCargo(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("cargo"); err != nil && os.Geteuid() != 0 {
		t.Skip("cargo is not installed for this user")
	}
	testpeer.AtLeast(t, "cargo", sparse)
}

// S-13: what a Cargo.lock pins is fetched through the egress list before verifiers
// run without network, and is there for the next one.
func TestCratesOfALockFileAreThereForVerifiers(t *testing.T) {
	t.Parallel()
	needCargo(t)
	i := install(t)
	site := newRustSite(t, i)
	i.write("home/.config/nacre/config.toml", site.egress)
	i.rustProject(cargoLock(site, "1.0.0"))
	old, kept := i.unused("cargo", 31), i.unused("cargo", 29)
	rec := i.writes(map[string]string{"src/lib.rs": "pub fn say() -> &'static str {\n    dep::says() // said\n}\n"})
	i.nacre("task", "run", i.goTask(""), "--project", "p", "--recording", rec).want(t, 0, "fetch", "http://packages.test:80", "✓ verify quality::tests-green · weak", "merged")
	i.nacre("run", "--project", "p", "--recording", i.writes(map[string]string{"new.txt": "x\n"}), "--check", "cargo test --offline",
		"--check", "! touch $CARGO_HOME/vendor/x", "say it").want(t, 0, "merged")
	if n := site.requests("/crates/dep-1.0.0.crate"); n != 1 {
		t.Errorf("the crate was asked for %d times", n)
	}
	if left, _ := filepath.Glob(filepath.Join(i.work, "home/.local/state/nacre/sessions/*/packages")); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
	forgotten(t, old, kept)
	i.nacre("audit", "verify").want(t, 0)
}

// S-13: what cannot be had as it is pinned fails what needs it, and says why.
func TestCratesThatAreNotAsPinnedAreNone(t *testing.T) {
	t.Parallel()
	needCargo(t)
	const registry = "registry+https://github.com/rust-lang/crates.io-index"
	for name, c := range map[string]struct {
		egress bool
		config string
		change []string
		want   string
	}{
		"another content than is pinned":    {true, "", []string{`checksum = "`, `checksum = "` + strings.Repeat("0", 64) + "\"\n#"}, "checksum for `dep v1.0.0` changed"},
		"no checksum":                       {true, "", []string{`checksum = "`, `#`}, "dep-1.0.0 is not pinned"},
		"a crate from git":                  {true, "", []string{registry, "git+http://packages.test/dep.git#" + strings.Repeat("0", 40)}, "crates of crates.io"},
		"another registry":                  {true, "", []string{registry, "sparse+http://packages.test/index/"}, "crates of crates.io"},
		"a server that is not listed":       {false, "", nil, "http://packages.test:80 is not on the egress list (--egress packages.test:80/http)"},
		"the usual registry, if not listed": {true, "# nothing\n", nil, "is not on the egress list"},
		"a folder of the host":              {true, "[source.crates-io]\nreplace-with = \"d\"\n[source.d]\ndirectory = \"/\"\n", nil, "has \"d\" in the place of crates.io"},
		"a crate that is not there":         {true, "", []string{`version = "1.0.0"`, `version = "1.0.7"`}, "Cargo.lock"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			site := newRustSite(t, i)
			if c.egress {
				i.write("home/.config/nacre/config.toml", site.egress)
			}
			if c.config != "" {
				i.write("home/.cargo/config.toml", c.config)
			}
			i.rustProject(cargoLock(site, "1.0.0", c.change...))
			rec := i.writes(map[string]string{"src/lib.rs": "pub fn say() -> &'static str {\n    dep::says() // said\n}\n"})
			have := i.nacre("task", "run", i.goTask(""), "--project", "p", "--recording", rec, "--json")
			if text := strings.NewReplacer(`\"`, `"`, `\u003c`, "<").Replace(have.stdout + have.stderr); have.code != 1 || !strings.Contains(text, c.want) {
				t.Errorf("exit %d, have no %q in\n%s", have.code, c.want, text)
			}
			if n := site.requests("/crates/dep-1.0.0.crate"); n > 0 {
				t.Errorf("the crate was asked for %d times", n)
			}
			if left, _ := os.ReadDir(filepath.Join(i.work, "home/.local/state/nacre/cargo")); len(left) > 0 {
				t.Errorf("%v is left", left)
			}
		})
	}
}

// S-13: the base's lock file decides, unless the task lets dependencies change.
func TestTheBaseSaysWhichCratesThereAre(t *testing.T) {
	t.Parallel()
	needCargo(t)
	for more, want := range map[string]int{"": 0, "allow-dep-bump = true\n": 1} {
		t.Run(more, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			site := newRustSite(t, i)
			i.write("home/.config/nacre/config.toml", site.egress)
			i.rustProject(cargoLock(site, "1.0.0"))
			rec := i.writes(map[string]string{"Cargo.lock": cargoLock(site, "1.1.0")})
			i.nacre("task", "run", i.goTask(more), "--project", "p", "--recording", rec)
			if have := site.requests("/crates/dep-1.1.0.crate"); have != want {
				t.Errorf("the work's choice was fetched %d times", have)
			}
		})
	}
}
