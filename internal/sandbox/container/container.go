// Package container promises what the native sandbox does, in containers of an engine that speaks
// Docker's API: docker and podman, with runc or gVisor (M-11, M-12, M-14). The engine is asked for
// a container without network, capabilities and a writable root. [inside.Container] checks from
// within that it gave one, forwards loopback ports to the session's sockets, and starts the agent.
// What the image says of itself counts for nothing. It pulls no image and configures no engine.
package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/moby/moby/api/types/system"

	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/sandbox"
)

// The engines.
const (
	Docker = "docker"
	Podman = "podman"
)

const (
	// callTimeout is how long one question to the engine may take.
	callTimeout = 20 * time.Second
	// startTimeout is how long a container may take to run its agent.
	startTimeout = 60 * time.Second
	// killTimeout is how long Kill waits for the container to be gone.
	killTimeout = 20 * time.Second
)

// Options of Open.
type Options struct {
	// Engine is Docker or Podman.
	Engine string
	// Socket is the path of the engine's socket; empty means its usual place.
	Socket string
	// Runtime of the engine, such as "runsc"; empty means the engine's default.
	Runtime string
	// Image is "NAME@sha256:…", "sha256:…", or a name that may come to mean another image.
	Image string
	// Init is the path of the sandbox-init binary; empty means this program.
	Init string
	// Apart says that the engine's containers run on a machine of its own, to which files of this
	// one come and no sockets.
	Apart bool
	// StateDir holds a record per container, for EndOrphans. Empty keeps none.
	StateDir string
}

// Backend starts containers. It may be used concurrently.
type Backend struct {
	options Options
	engine  *engine
	mapper  *sandbox.Mapper
	image   image
	info    system.Info
}

var _ sandbox.Backend = (*Backend)(nil)

// Open asks the engine whether it can start what a posture wants, and finds the image.
func Open(ctx context.Context, o Options) (*Backend, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	b := &Backend{options: o}
	var err error
	if b.engine, err = dial(o.Socket); err != nil {
		return nil, err
	}
	if err := b.look(ctx); err != nil {
		return nil, errors.Join(err, b.engine.Close())
	}
	if b.mapper, err = sandbox.OpenMapper(o.Init, b.isolated()); err != nil {
		return nil, errors.Join(err, b.engine.Close())
	}
	return b, nil
}

func (o *Options) complete() error {
	if o.Engine != Docker && o.Engine != Podman {
		return fmt.Errorf("engine %q: use docker or podman", o.Engine)
	}
	if o.Apart && o.Engine == Podman {
		return errors.New("podman loses some of what it carries to and from containers of a machine of its own: use docker, " +
			"or another engine that speaks its API")
	}
	if o.Image == "" {
		return fmt.Errorf("%s wants an image: name one, such as image = \"name@sha256:…\" under [sandbox] in config.toml", o.Engine)
	}
	if o.Socket == "" {
		o.Socket = DefaultSocket(o.Engine)
	}
	o.Socket = strings.TrimPrefix(o.Socket, "unix://")
	if !filepath.IsAbs(o.Socket) {
		return fmt.Errorf("engine socket %q: name a Unix socket of this machine", o.Socket)
	}
	if o.Init == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		o.Init = self
	}
	return nil
}

// DefaultSocket is where an engine of this user listens, if nobody put it elsewhere.
func DefaultSocket(engine string) string {
	switch room := os.Getenv("XDG_RUNTIME_DIR"); {
	case engine == Docker:
		return "/var/run/docker.sock"
	case os.Geteuid() != 0 && room != "":
		return room + "/podman/podman.sock"
	default:
		return "/run/podman/podman.sock"
	}
}

// look asks the engine what it is and has.
func (b *Backend) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var err error
	if b.info, err = b.engine.about(ctx); err != nil {
		return fmt.Errorf("%s at %s: %w", b.options.Engine, b.options.Socket, err)
	}
	if b.info.OSType != "" && b.info.OSType != "linux" {
		return fmt.Errorf("%s runs %s containers: nacre wants linux", b.options.Engine, b.info.OSType)
	}
	if err := b.checkEngine(); err != nil {
		return err
	}
	b.image, err = findImage(ctx, b.engine, b.options.Image)
	return err
}

func (b *Backend) checkEngine() error {
	o := b.options
	if _, known := b.info.Runtimes[o.Runtime]; o.Runtime != "" && !known {
		var names []string
		for name := range b.info.Runtimes {
			names = append(names, name)
		}
		slices.Sort(names)
		return fmt.Errorf("%s has no runtime %q (it has %s): add it to the engine's own configuration", o.Engine, o.Runtime, strings.Join(names, ", "))
	}
	if o.Engine == Docker && b.has("rootless") {
		return errors.New("rootless docker shows this user's files as root's, which no agent may be: use podman")
	}
	if o.Engine == Podman && !ownSocket(o.Socket) {
		return fmt.Errorf("podman at %s is another user's: start one as the user who runs nacre", o.Socket)
	}
	if b.rootless() && b.info.CgroupVersion != "2" { // whatever it says
		b.info.MemoryLimit, b.info.SwapLimit, b.info.PidsLimit, b.info.CPUShares = false, false, false, false
	}
	if b.has("userns") {
		return errors.New("docker runs with userns-remap, which hides the project from agents: " +
			"start nacre's engine without it, or use the native backend, which has a user namespace of its own")
	}
	return nil
}

// rootless says that the engine is an ordinary user's, as nacre is. Podman's is
// whoever's its socket is.
func (b *Backend) rootless() bool { return b.options.Engine == Podman && os.Geteuid() != 0 }

func ownSocket(name string) bool {
	info, err := os.Stat(name)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// has reports whether the engine names a security option.
func (b *Backend) has(option string) bool {
	return slices.ContainsFunc(b.info.SecurityOptions, func(s string) bool {
		return s == option || strings.HasPrefix(s+",", "name="+option+",")
	})
}

// Close implements sandbox.Backend.
func (b *Backend) Close() error { return errors.Join(b.mapper.Close(), b.engine.Close()) }

// Name implements sandbox.Backend.
func (b *Backend) Name() string {
	name := b.options.Engine
	if b.options.Runtime != "" {
		name += " (" + b.options.Runtime + ")"
	}
	if b.options.Apart {
		name += " in its own machine"
	}
	return name
}

// HostTools is false: the image brings its own.
func (b *Backend) HostTools() bool { return false }

// PeerUIDs implements sandbox.Backend.
func (b *Backend) PeerUIDs() []int {
	if b.options.Apart {
		return []int{os.Geteuid()} // nacre itself connects for them
	}
	uid, _ := b.mapper.AgentIDs()
	return []int{uid}
}

// isGVisor reports whether the container's kernel is gVisor's.
func (b *Backend) isGVisor() bool {
	return strings.Contains(b.options.Runtime, "runsc") && b.isolated()
}

func (b *Backend) isolated() bool { return posture.Isolated(b.options.Runtime) }

// Holds implements sandbox.Backend.
func (b *Backend) Holds() string {
	runtime := b.options.Runtime
	if runtime == "" {
		runtime = b.info.DefaultRuntime
	}
	seccomp := "own seccomp"
	if b.has("seccomp") {
		seccomp = "the engine's and own seccomp"
	}
	return fmt.Sprintf("%s %s, runtime %s, no capabilities, %s, cgroup v%s, image %s",
		b.options.Engine, b.info.ServerVersion, runtime, seccomp, b.info.CgroupVersion, b.image.short())
}

// NotEnforced implements sandbox.Backend.
func (b *Backend) NotEnforced() []string {
	uid, _ := b.mapper.AgentIDs()
	var missing []string
	if b.options.Apart {
		missing = append(missing, apartMounts)
	}
	if !b.image.pinned {
		missing = append(missing, "image: "+b.options.Image+" is not pinned by a digest and may come to mean another one; now it is "+b.image.id)
	}
	switch {
	case !b.limitsMemory() && b.isGVisor():
		missing = append(missing, gVisorMemory)
	case !b.limitsMemory():
		missing = append(missing, "memory: the engine has no memory control group; each process is limited, their sum is not")
	}
	if !b.limitsProcesses() {
		missing = append(missing, "processes: the engine has no pids control group")
	}
	if !b.mapper.Maps() {
		missing = append(missing, "noexec: the engine cannot forbid to run programs from a bind")
	}
	if !b.limitsFiles() {
		missing = append(missing, "files: podman limits no tmpfs's number of files, only their size and the memory that they take")
	}
	if b.isGVisor() {
		missing = append(missing, gVisorFiles, gVisorInit, gVisorPorts, gVisorProc, gVisorWatches)
	} else {
		missing = append(missing, sharedWatches, sandbox.SharedLocks)
	}
	return append(missing, sandbox.SharedInit, sandbox.SharedEnviron, "users: there is no user namespace but the engine's; what escaped would be user "+fmt.Sprint(uid)+" of this machine",
		"disk: no quota for what a writable bind holds")
}

// apartMounts is what no comparison of numbers across two machines could find.
const apartMounts = "mounts: the engine opens folders by their paths, on a machine of its own; a path that led elsewhere for that moment alone is not noticed"

// sharedWatches is what only a user namespace of the sandbox's own would bound.
const sharedWatches = "watches: what a container takes of inotify's instances and watches counts for the user of this machine that it runs as"

// What gVisor's kernel does otherwise than Linux, so that no container of it can
// be kept from it.
const (
	gVisorMemory  = "memory: gVisor was told to ignore control groups, and limits no process's memory itself"
	gVisorWatches = "watches: gVisor limits no inotify instances; they are its own"
	gVisorFiles   = "files: gVisor limits no tmpfs's number of files, only their size"
	gVisorInit    = "ending: gVisor lets an agent kill its PID 1, which ends the agent too, and list how many descriptors it has. The run then fails, " +
		"and the host says so"
	gVisorPorts = "ports: gVisor lets every user have ports below 1024 of the sandbox's own loopback"
	gVisorProc  = "kernel: gVisor takes no masks below /proc and /sys; what they show is gVisor's own kernel, none of this machine's"
)

func (b *Backend) limitsMemory() bool { return b.info.MemoryLimit && !b.ignoresGroups() }

func (b *Backend) limitsProcesses() bool { return b.info.PidsLimit && !b.ignoresGroups() }

// limitsFiles is false for podman, which refuses the option.
func (b *Backend) limitsFiles() bool { return b.options.Engine == Docker }

// ignoresGroups is true for a gVisor that was told to.
func (b *Backend) ignoresGroups() bool {
	return slices.ContainsFunc(b.info.Runtimes[b.options.Runtime].Args, func(arg string) bool {
		return strings.TrimLeft(arg, "-") == "ignore-cgroups"
	})
}
