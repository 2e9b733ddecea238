package testpeer

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// nobody runs servers that refuse to be root's.
const nobody = 65534

// Postgres starts a PostgreSQL of the test's own, on a socket in a folder of its own,
// and returns the address of its database. It ends with the test. Settings, such as fsync=on,
// come after those of its own.
func Postgres(t testing.TB, settings ...string) string {
	t.Helper()
	folder := postgresFolder(t)
	startPostgres(t, folder, settings...)
	return postgresAt(folder)
}

func postgresAt(folder string) string { return "postgres://nacre@/postgres?host=" + folder }

// postgresFolder is one for a server that ends with the test.
func postgresFolder(t testing.TB) string {
	t.Helper()
	if leftOut("postgres") {
		Missing(t, "postgres", "")
	}
	folder, err := os.MkdirTemp("", "nacre-postgres-") //nolint:usetesting // the server's user cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	if os.Getuid() == 0 {
		if err := os.Chown(folder, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func startPostgres(t testing.TB, folder string, settings ...string) {
	t.Helper()
	control := postgresProgram(t, "pg_ctl")
	data, set := filepath.Join(folder, "data"), ""
	for _, s := range settings {
		set += " -c " + s
	}
	makeCluster(t, folder, data)
	asUser(t, folder, control, "start", "--wait", "--timeout=120", "--pgdata="+data, "--log="+filepath.Join(folder, "log"),
		"--options=-c listen_addresses='' -c fsync=off -c max_connections=40 -k "+folder+set)
	t.Cleanup(func() { asUser(t, folder, control, "stop", "--mode=immediate", "--wait", "--pgdata="+data) })
}

// makeCluster fills a folder with the files of a server that has not started yet. A copy takes a tenth of the
// processor's time that initdb takes. So the first test keeps its files beside the binaries, for the others of
// all packages. Each user has files of their own, since nobody else can read them.
func makeCluster(t testing.TB, folder, data string) {
	t.Helper()
	initdb := postgresProgram(t, "initdb")
	version, err := exec.CommandContext(t.Context(), initdb, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(Built(), "test", fmt.Sprintf("postgres-%x-%d", sha256.Sum256(version), os.Getuid()))
	if Built() != "" && copyCluster(kept, data) == nil {
		return
	}
	asUser(t, folder, initdb, "--no-sync", "--auth=trust", "--username=nacre", "--encoding=UTF8", "--locale=C", "--pgdata="+data)
	if Built() == "" {
		return
	}
	// Where the files cannot be kept, or another test was first, nothing is lost but time.
	if aside, err := os.MkdirTemp(filepath.Dir(kept), "postgres-"); err == nil { //nolint:usetesting // it is renamed within its disk
		if made := filepath.Join(aside, "data"); copyCluster(data, made) == nil {
			_ = os.Rename(made, kept)
		}
		_ = os.RemoveAll(aside)
	}
}

// copyCluster copies the files of a server, with their owner and rights.
func copyCluster(from, to string) error {
	return exec.Command("cp", "-a", from, to).Run()
}

// postgresProgram is one of the server's, which Debian keeps out of PATH.
func postgresProgram(t testing.TB, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err != nil || len(found) == 0 {
		Missing(t, "postgres", name+" is not installed")
	}
	return slices.Max(found)
}

func asUser(t testing.TB, folder, program string, args ...string) {
	t.Helper()
	command := exec.Command(program, args...)
	command.Dir = folder
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + folder, "LC_ALL=C"}
	if os.Getuid() == 0 {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	out, err := os.OpenFile(filepath.Join(folder, "out"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	command.Stdout, command.Stderr = out, out // a file: the server holds on to it
	err = command.Run()
	_ = out.Close()
	if err != nil {
		text, _ := os.ReadFile(out.Name())
		t.Fatalf("%s: %v\n%s", program, err, text)
	}
}
