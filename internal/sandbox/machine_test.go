package sandbox_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox"
)

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestControlGroupsAreFoundWhereTheyCanBeMade(t *testing.T) {
	for _, c := range []struct {
		name, mounts, self string
		files              map[string]string
		version            int
		memory, pids       string
	}{
		{
			name:    "version 1",
			mounts:  "30 25 0:26 / @/mem rw - cgroup cgroup rw,memory\n31 25 0:27 / @/pids rw - cgroup cgroup rw,pids\n",
			self:    "4:memory:/own\n8:pids:/\n0::/\n",
			files:   map[string]string{"mem/own/memory.limit_in_bytes": "", "pids/cgroup.procs": ""},
			version: 1, memory: "mem/own", pids: "pids",
		},
		{
			name:    "version 1 with memory only",
			mounts:  "30 25 0:26 / @/mem rw - cgroup cgroup rw,memory\n",
			self:    "4:memory:/\n",
			files:   map[string]string{"mem/memory.limit_in_bytes": ""},
			version: 1, memory: "mem",
		},
		{
			name:    "version 2, delegated above",
			mounts:  "30 25 0:26 / @/unified rw - cgroup2 cgroup2 rw\n",
			self:    "0::/user/app/term\n",
			files:   map[string]string{"unified/user/app/term/cgroup.subtree_control": "", "unified/user/app/cgroup.subtree_control": "memory pids\n", "unified/user/app/cgroup.procs": ""},
			version: 2, memory: "unified/user/app", pids: "unified/user/app",
		},
		{
			name:   "version 2, not delegated",
			mounts: "30 25 0:26 / @/unified rw - cgroup2 cgroup2 rw\n",
			self:   "0::/user\n",
			files:  map[string]string{"unified/user/cgroup.subtree_control": "cpu\n"},
		},
		{name: "none", mounts: "", self: ""},
		{name: "nonsense", mounts: "a - b\n-\n", self: "::::\nx\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range c.files {
				write(t, filepath.Join(dir, name), text)
			}
			write(t, filepath.Join(dir, "mountinfo"), strings.ReplaceAll(c.mounts, "@", dir))
			write(t, filepath.Join(dir, "self"), c.self)
			version, memory, pids := sandbox.Groups(filepath.Join(dir, "mountinfo"), filepath.Join(dir, "self"))
			want := func(rel string) string {
				if rel == "" {
					return ""
				}
				return filepath.Join(dir, rel)
			}
			if version != c.version || memory != want(c.memory) || pids != want(c.pids) {
				t.Errorf("have v%d %q %q", version, memory, pids)
			}
		})
	}
}

func TestAGroupOfVersion2HoldsTheLimits(t *testing.T) {
	dir := t.TempDir()
	group, err := sandbox.EnterGroup(dir, 4711, nacre.Limits{Memory: 1 << 20, Processes: 10})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"memory.max": "1048576", "memory.swap.max": "0", "pids.max": "42", "cgroup.procs": "4711"} {
		text, err := os.ReadFile(filepath.Join(group, name))
		if err != nil || string(text) != want {
			t.Errorf("%s: have %q, %v, want %q", name, text, err, want)
		}
	}
	write(t, filepath.Join(group, "memory.events"), "low 0\noom 3\noom_kill 1\n")
	if !sandbox.GroupKilled(2, group) || sandbox.GroupKilled(1, group) {
		t.Error("the count of killed processes was misread")
	}
}

func TestRootIsNeverTheHostsRoot(t *testing.T) { // M-12
	for _, c := range []struct {
		name, uidMap string
		first        int
	}{
		{"on a host", "         0          0 4294967295\n", 1_000_000},
		{"in a container with few users", "0 100000 200000\n", 134_464},
		{"in a container with two ranges", "0 1000 1\n1 100000 150000\n", 84_465},
		{"in a container with 65536 users", "0 100000 65536\n", 0},
		{"in a namespace of one", "0 1000 1\n", 0},
		{"with nothing", "", 0},
		{"with nonsense", "x\n", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "uid_map")
			write(t, file, c.uidMap)
			first, err := sandbox.PickRange(file)
			if first != c.first || (err == nil) != (c.first != 0) {
				t.Errorf("have %d, %v, want %d", first, err, c.first)
			}
		})
	}
}

func TestSupportNamesWhatIsNotEnforced(t *testing.T) { // M-10
	r := sandbox.Support(sandbox.Options{Init: initBinary(t)})
	if r.Problem != "" || !r.UserNamespaces || r.Kernel == "" {
		t.Errorf("have %+v", r)
	}
	if r.Root != (os.Geteuid() == 0) {
		t.Errorf("root is %v", r.Root)
	}
	if !strings.Contains(strings.Join(r.NotEnforced, "\n"), "disk:") {
		t.Errorf("have %q, want the disk named", r.NotEnforced)
	}
	if r.Cgroup == "none" && !strings.Contains(strings.Join(r.NotEnforced, "\n"), "memory:") {
		t.Errorf("have %q, want the memory named", r.NotEnforced)
	}
}

// forbidden makes the test binary try to open the sandbox where user
// namespaces are forbidden.
const forbidden = "NACRE_TEST_FORBIDDEN"

func openForbidden() error {
	if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
		return err
	}
	if err := unix.Setresuid(1000, 1000, 1000); err != nil {
		return err
	}
	n, err := sandbox.Open(sandbox.Options{})
	if err != nil {
		return err
	}
	_, err = n.Start(context.Background(), command("/bin/true"))
	fmt.Println(err, sandbox.Support(sandbox.Options{}).Problem)
	return n.Close()
}

func TestForbiddenNamespacesAreNamedWithTheirSetting(t *testing.T) { // M-60, F-137
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user cannot make a namespace with two users in it")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	users := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}, {ContainerID: 1000, HostID: 2_001_000, Size: 1}}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), forbidden+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER, UidMappings: users, GidMappings: users, Credential: &syscall.Credential{NoSetGroups: true},
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "user.max_user_namespaces = 0") || !strings.Contains(string(out), "sysctl") {
		t.Errorf("have %s, %v", out, err)
	}
}

func TestPathsAreResolvedAsTheSystemDoes(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "file"), "")
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"link": "a/b", "loop": "loop", "far": "link/../../file", "a/b/up": "../.."} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	var names, want []string
	for _, name := range []string{"", "/", "/file", "/a", "/a/b", "/link", "/link/", "/link/..", "/link/../b/up/a", "/far", "/loop", "/loop/x", "/none", "/none/x", "/file/x", "/a/b/up/link"} {
		names = append(names, dir+name)
		real, err := filepath.EvalSymlinks(dir + name)
		if err != nil {
			real = ""
		}
		want = append(want, real)
	}
	names, want = append(names, "/", "/no-such-folder"), append(want, "/", "")
	if have := sandbox.Resolve(names...); !slices.Equal(have, want) {
		t.Errorf("have %q, want %q", have, want)
	}
}

// M-16: groups that a killed process had not noted yet are removed by the next.
func TestGroupsOfKilledProcessesAreSwept(t *testing.T) {
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	dead := gone.Process.Pid
	dir := t.TempDir()
	long := time.Now().Add(-time.Hour)
	for name, old := range map[string]bool{
		fmt.Sprintf("nacre-%d-1", dead): true, fmt.Sprintf("nacre-%d-2", dead): false, fmt.Sprintf("nacre-%d-3", os.Getpid()): true, "nacre-x": true, "other": true,
	} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if old {
			if err := os.Chtimes(filepath.Join(dir, name), long, long); err != nil {
				t.Fatal(err)
			}
		}
	}
	sandbox.SweepGroups(dir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, e := range entries {
		have = append(have, e.Name())
	}
	want := []string{fmt.Sprintf("nacre-%d-2", dead), fmt.Sprintf("nacre-%d-3", os.Getpid()), "nacre-x", "other"}
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("have %v, want %v", have, want)
	}
}
