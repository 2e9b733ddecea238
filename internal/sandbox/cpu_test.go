package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/sandbox"
)

func TestTheCPUGroupIsFoundWhereItCanBeMade(t *testing.T) { // M-12
	for _, c := range []struct {
		name, mounts, self string
		files              map[string]string
		version            int
		dir                string
	}{
		{
			name:    "version 1, with the controller beside another",
			mounts:  "30 25 0:26 / @/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
			self:    "4:cpu,cpuacct:/own\n",
			files:   map[string]string{"cpu/own/cpu.shares": ""},
			version: 1, dir: "cpu/own",
		},
		{
			name:    "version 2 with the controller delegated",
			mounts:  "30 25 0:26 / @/unified rw - cgroup2 cgroup2 rw\n",
			self:    "0::/user\n",
			files:   map[string]string{"unified/user/cgroup.subtree_control": "cpu memory pids\n", "unified/user/cgroup.procs": ""},
			version: 2, dir: "unified/user",
		},
		{
			name:    "version 2 without it",
			mounts:  "30 25 0:26 / @/unified rw - cgroup2 cgroup2 rw\n",
			self:    "0::/user\n",
			files:   map[string]string{"unified/user/cgroup.subtree_control": "memory pids\n", "unified/user/cgroup.procs": ""},
			version: 2,
		},
		{
			name:    "version 2 wins over version 1 with the cpu alone",
			mounts:  "30 25 0:26 / @/cpu rw - cgroup cgroup rw,cpu\n31 25 0:27 / @/unified rw - cgroup2 cgroup2 rw\n",
			self:    "4:cpu:/\n0::/user\n",
			files:   map[string]string{"cpu/cpu.shares": "", "unified/user/cgroup.subtree_control": "memory pids\n", "unified/user/cgroup.procs": ""},
			version: 2,
		},
		{
			name:   "version 1 without the file",
			mounts: "30 25 0:26 / @/cpu rw - cgroup cgroup rw,cpu\n",
			self:   "4:cpu:/\n",
			files:  map[string]string{"cpu/tasks": ""},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range c.files {
				write(t, filepath.Join(dir, name), text)
			}
			write(t, filepath.Join(dir, "mountinfo"), strings.ReplaceAll(c.mounts, "@", dir))
			write(t, filepath.Join(dir, "self"), c.self)
			want := ""
			if c.dir != "" {
				want = filepath.Join(dir, c.dir)
			}
			version, have := sandbox.CPUGroup(filepath.Join(dir, "mountinfo"), filepath.Join(dir, "self"))
			if version != c.version || have != want {
				t.Errorf("have v%d %q, want v%d %q", version, have, c.version, want)
			}
		})
	}
}

func TestACPUGroupHoldsShareAndCores(t *testing.T) { // M-12
	for _, c := range []struct {
		version, milli int
		want           map[string]string
	}{
		{1, 1500, map[string]string{"cpu.shares": "512", "cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000", "cgroup.procs": "4711"}},
		{1, 1, map[string]string{"cpu.cfs_quota_us": "1000"}}, // less than the kernel takes
		{2, 1500, map[string]string{"cpu.max": "150000 100000", "cpu.weight": "50", "cgroup.procs": "4711"}},
	} {
		group, err := sandbox.EnterCPUGroup(c.version, t.TempDir(), 4711, c.milli)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range c.want {
			if text, err := os.ReadFile(filepath.Join(group, name)); err != nil || string(text) != want {
				t.Errorf("v%d, %d: %s: have %q, %v, want %q", c.version, c.milli, name, text, err, want)
			}
		}
	}
}
