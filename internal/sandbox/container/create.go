package container

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/sandbox/inside"
)

// The labels of nacre's containers.
const (
	labelName    = "nacre.container"
	labelSession = "nacre.session"
	labelState   = "nacre.state"
)

const (
	// initThreads is the room that PID 1's own threads get beyond the agent's
	// processes. They share one group, so room that PID 1 leaves is the agent's.
	initThreads = 16
	// maxInodes of each tmpfs, as in the native sandbox: its size does not limit empty files.
	maxInodes = 200_000
	// shares of the processor against what else runs, of 1024.
	shares = 512
	// maxUserProcesses is the limit per user, which all containers share: pids holds each.
	maxUserProcesses = 30_000
	// oomScore makes the host's memory killer look at containers first.
	oomScore = 500
)

// maskedPaths are those of the engines' own default, which a list of ours replaces, and what else
// of /proc and /sys tells of the machine. The native sandbox shows processes only.
func maskedPaths() []string {
	return []string{
		"/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats",
		"/proc/sched_debug", "/proc/scsi", "/proc/interrupts", "/proc/kallsyms", "/proc/kpageflags", "/proc/cmdline",
		"/proc/partitions", "/proc/diskstats", "/proc/modules", "/proc/config.gz",
		"/proc/key-users", "/proc/iomem", "/proc/ioports", "/proc/swaps", "/proc/kmsg", "/proc/kpagecount", "/proc/kpagecgroup",
		"/proc/slabinfo", "/proc/vmallocinfo", "/proc/zoneinfo", "/proc/buddyinfo", "/proc/pagetypeinfo", "/proc/softirqs",
		"/proc/locks", "/proc/schedstat", "/proc/consoles", "/proc/driver", "/proc/sys/kernel/random/boot_id",
		"/sys",
	}
}

func readOnlyPaths() []string {
	return []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
}

// creation is all that the engine is asked for.
func (b *Backend) creation(c sandbox.Command, l *layout, paths map[string]string) creation {
	uid, gid := b.mapper.AgentIDs()
	limits := c.Posture.Limits.WithDefaults()
	input := c.Stdin != nil || b.options.Apart
	host := &container.HostConfig{
		NetworkMode: "none", IpcMode: "private", CgroupnsMode: "private", LogConfig: container.LogConfig{Type: "none"},
		CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"}, ReadonlyRootfs: true, OomScoreAdj: oomScore,
		ShmSize: shmSize, Runtime: b.options.Runtime, Resources: b.resources(limits), Tmpfs: map[string]string{},
		MaskedPaths: append(maskedPaths(), l.masked...), ReadonlyPaths: readOnlyPaths(), Sysctls: b.sysctls(),
	}
	if b.options.Engine == Podman {
		host.SecurityOpt = append(host.SecurityOpt, "mask="+strings.Join(host.MaskedPaths, ":")) // it reads no list
		host.LogConfig.Type = ""                                                                 // podman's attach wants one; what is logged goes with the container
		if b.rootless() {
			host.UsernsMode = "keep-id"
		}
	}
	for _, e := range l.entries {
		if e.kind == kindTmpfs {
			host.Tmpfs[e.target] = b.tmpfs(e, uid, gid)
			continue
		}
		host.Mounts = append(host.Mounts, mount.Mount{
			Type: mount.TypeBind, Source: paths[e.target], Target: e.target, ReadOnly: e.readOnly,
			BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate},
		})
	}
	return creation{l.boot.name, container.CreateRequest{
		Config: &container.Config{
			Image: b.image.id, Hostname: inside.HostName, User: fmt.Sprintf("%d:%d", uid, gid), WorkingDir: "/",
			Entrypoint: []string{inside.Program}, Cmd: []string{b.mode()}, Env: b.image.blankEnv(),
			Healthcheck: &container.HealthConfig{Test: []string{"NONE"}}, NetworkDisabled: b.options.Engine == Docker, StopSignal: "SIGKILL",
			Labels:       map[string]string{labelName: l.boot.name, labelSession: c.Label, labelState: b.options.StateDir},
			AttachStdout: true, AttachStderr: true,
			Tty: c.Terminal && !b.options.Apart, OpenStdin: input, AttachStdin: input, StdinOnce: input,
		},
		HostConfig: host,
	}}
}

// mode is what PID 1 is told to be.
func (b *Backend) mode() string {
	if b.options.Apart {
		return inside.ModeApart
	}
	return inside.ModeContain
}

// sysctls of the container's own namespaces: ports below 1024 are root's, which
// nobody inside is, and System V shared memory is as small as /dev/shm.
func (b *Backend) sysctls() map[string]string {
	return map[string]string{
		"net.ipv4.ip_unprivileged_port_start": "1024",
		"kernel.shmall":                       strconv.Itoa(shmSize / 4096),
	}
}

// checkPaths refuses what an engine would read as something else.
func (b *Backend) checkPaths(paths map[string]string) error {
	for target, source := range paths {
		if b.options.Engine == Podman && strings.Contains(source+target, ",") {
			return fmt.Errorf("podman cannot bind %s at %s: a comma ends a path for it", source, target)
		}
	}
	return nil
}

func (b *Backend) tmpfs(e entry, uid, gid int) string {
	options := []string{"nosuid", "nodev", "size=" + strconv.FormatInt(e.size, 10)}
	if b.limitsFiles() {
		options = append(options, "nr_inodes="+strconv.Itoa(maxInodes))
	}
	if e.noExec || e.readOnly {
		options = append(options, "noexec")
	} else {
		options = append(options, "exec")
	}
	switch {
	case e.readOnly:
		options = append(options, "ro", fmt.Sprintf("mode=%o", e.mode))
	case b.options.Engine == Podman: // knows no owner: there is nobody else inside
		options = append(options, "mode=1777")
	default:
		options = append(options, fmt.Sprintf("mode=%o", e.mode), fmt.Sprintf("uid=%d", uid), fmt.Sprintf("gid=%d", gid))
	}
	if b.options.Engine == Podman {
		options = append(options, "notmpcopyup") // else the image's files would be copied there
	}
	return strings.Join(options, ",")
}

func (b *Backend) resources(limits nacre.Limits) container.Resources {
	pids := int64(limits.Processes + initThreads)
	r := container.Resources{Memory: limits.Memory, MemorySwap: limits.Memory, PidsLimit: &pids, CPUShares: shares}
	if !b.info.MemoryLimit {
		r.Memory, r.MemorySwap = 0, 0
	}
	if !b.info.SwapLimit {
		r.MemorySwap = 0
	}
	if !b.info.PidsLimit {
		r.PidsLimit = nil
	}
	if !b.info.CPUShares {
		r.CPUShares = 0
	}
	r.Ulimits = []*container.Ulimit{
		ulimit("core", unix.RLIMIT_CORE, 0), ulimit("nofile", unix.RLIMIT_NOFILE, int64(limits.OpenFiles)),
		ulimit("nproc", unix.RLIMIT_NPROC, maxUserProcesses),
	}
	return r
}

// ulimit never asks for more than this process has: an engine would fail, or give it.
func ulimit(name string, resource int, limit int64) *container.Ulimit {
	var now unix.Rlimit
	if err := unix.Getrlimit(resource, &now); err == nil && now.Max < uint64(limit) {
		limit = int64(now.Max)
	}
	return &container.Ulimit{Name: name, Soft: limit, Hard: limit}
}

// work is what PID 1 is told to do.
func (b *Backend) work(c sandbox.Command, l *layout) (inside.Container, error) {
	limits := c.Posture.Limits.WithDefaults()
	forwards, err := c.Forwards()
	if err != nil {
		return inside.Container{}, err
	}
	w := inside.Container{
		Binds: l.binds(!b.isolated(), !b.isolated() && !b.options.Apart), Symlinks: l.links, Forwards: forwards, Terminal: c.Terminal,
		Agent: inside.Agent{
			Argv: c.Argv, Env: c.Environ(), Dir: c.Posture.Dir, Writable: l.writable(), NoStop: b.isGVisor(),
			Limits: inside.Limits{OpenFiles: uint64(limits.OpenFiles), FileSize: uint64(limits.FileSize)},
		},
	}
	if !b.limitsMemory() {
		w.Agent.Limits.Data = uint64(limits.Memory)
	}
	if !b.limitsProcesses() {
		w.Agent.Limits.Processes = uint64(limits.Processes)
	}
	return w, nil
}
