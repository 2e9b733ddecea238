package config

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/policy"
)

// NativeBackend is what sandboxes are started with unless the config says otherwise.
const NativeBackend = "native"

// Sandbox says what starts sandboxes (M-11); the zero value: the native backend.
type Sandbox struct {
	// Backend is "native", "docker", "podman" or "k8s".
	Backend string `toml:"backend"`
	// Runtime of the engine, such as "runsc"; empty means the engine's default.
	Runtime string `toml:"runtime"`
	// Image is "NAME@sha256:…", "sha256:…", a name, or a devcontainer.json's path (M-15).
	Image string `toml:"image"`
	// Socket is the engine's, where it is not in its usual place.
	Socket string `toml:"socket"`
	// K8s is the warm pool that pods are claimed from, and how they reach this machine.
	K8s struct {
		Kubeconfig string `toml:"kubeconfig"`
		Context    string `toml:"context"`
		Namespace  string `toml:"namespace"`
		Pool       string `toml:"pool"`
		Listen     string `toml:"listen"`
		Address    string `toml:"address"`
	} `toml:"k8s"`
}

// Check refuses what no backend can be opened with.
func (s Sandbox) Check() error {
	switch s.Backend {
	case "", NativeBackend:
		if s.Runtime != "" || s.Image != "" || s.Socket != "" {
			return errors.New("[sandbox]: runtime, image and socket are a container engine's: write backend = \"docker\" or \"podman\" too")
		}
	case "docker", "podman":
		if s.Image == "" {
			return fmt.Errorf("[sandbox]: backend = %q wants image = \"NAME@sha256:…\", or the path of a devcontainer.json", s.Backend)
		}
	case posture.Pods:
		return posture.CheckPods(s.K8s.Kubeconfig, s.K8s.Namespace, s.K8s.Pool, s.K8s.Listen, s.Image+s.Socket)
	default:
		return fmt.Errorf("[sandbox]: backend = %q: use native, docker, podman or k8s", s.Backend)
	}
	return nil
}

// checkTenants refuses what would serve several tenants with a single user's defaults (M-14).
func (c Config) checkTenants() error {
	if !c.MultiTenant {
		return nil
	}
	if !posture.Isolated(c.Sandbox.Runtime) {
		return errors.New("multi_tenant = true wants a kernel of their own for agents: write backend = \"docker\" or \"podman\" " +
			"and runtime = \"runsc\" (gVisor) or \"kata\" under [sandbox]")
	}
	if len(c.Groups) == 0 {
		return errors.New("multi_tenant = true wants every tenant's group: write [groups.NAME] with its roles and tools")
	}
	for name, g := range c.Groups {
		if len(g.Roles) == 0 {
			return fmt.Errorf("multi_tenant = true: [groups.%s] has no roles, and tenants get no default", name)
		}
	}
	return nil
}

const (
	mebibyte      = 1 << 20 // the unit of the limits in the config
	maxConfigured = 1 << 40 // the largest limit, in its own unit
)

// Limits are the operator's of every sandbox (M-12). Zero means the default.
type Limits struct {
	// OutputMiB is what stdout and stderr may carry together.
	OutputMiB int64 `toml:"output_mib"`
	// DiskMiB is what a sandbox may add to what it may write.
	DiskMiB int64 `toml:"disk_mib"`
	// CPUMillicores are thousandths of a core for all of a sandbox.
	CPUMillicores int `toml:"cpu_millicores"`
	// MemoryMiB is for all of a sandbox.
	MemoryMiB int64 `toml:"memory_mib"`
	// HandlerSeconds are for one answer of a plugin; 0 means 30 (D-14).
	HandlerSeconds int `toml:"handler_seconds"`
	// DrainSeconds are for answers that an ending plugin owes, 0 means 30; ShutdownSeconds for its end, 0 means 10 (D-24).
	DrainSeconds    int `toml:"drain_seconds"`
	ShutdownSeconds int `toml:"shutdown_seconds"`
	// IPCSeconds is how long an agent's call waits, and every tool has less. 0 means 5 more than the slowest of its tools
	// has (D-07).
	IPCSeconds int `toml:"ipc_seconds"`
}

// The bounds of what is waited for, in seconds.
const (
	defaultHandler = 30
	maxHandler     = 3600
	maxShutdown    = 600
	ipcBeyond      = 5
	maxIPC         = 2 * maxHandler
)

// checkWaits bounds what is waited for. A call that is given up too soon may be carried out all the same.
func (l Limits) checkWaits() error {
	for _, w := range []struct {
		name      string
		have, max int
	}{
		{"handler_seconds", l.HandlerSeconds, maxHandler}, {"drain_seconds", l.DrainSeconds, maxHandler},
		{"shutdown_seconds", l.ShutdownSeconds, maxShutdown}, {"ipc_seconds", l.IPCSeconds, maxIPC},
	} {
		if w.have < 0 || w.have > w.max {
			return fmt.Errorf("[limits] %s = %d: use 1 to %d", w.name, w.have, w.max)
		}
	}
	if handler := int(l.Handler() / time.Second); l.IPCSeconds != 0 && l.IPCSeconds <= handler {
		return fmt.Errorf("[limits] ipc_seconds = %d: use more than the %d s that a handler has", l.IPCSeconds, handler)
	}
	return nil
}

// checkDeadline bounds the time of one tool.
func (l Limits) checkDeadline(seconds int) error {
	if most := min(maxHandler, cmp.Or(l.IPCSeconds, maxIPC)-1); seconds < 0 || seconds > most {
		return fmt.Errorf("deadline_seconds = %d: use 1 to %d, and less than ipc_seconds, which is how long an agent waits", seconds, most)
	}
	return nil
}

// Handler is how long a tool may take for one answer, unless its author or the operator says so of it.
func (l Limits) Handler() time.Duration {
	return time.Duration(cmp.Or(l.HandlerSeconds, defaultHandler)) * time.Second
}

// IPC is how long an agent's call waits for its answer, where its slowest tool has so long.
func (l Limits) IPC(slowest time.Duration) time.Duration {
	if l.IPCSeconds != 0 {
		return time.Duration(l.IPCSeconds) * time.Second
	}
	return max(slowest, l.Handler()) + ipcBeyond*time.Second
}

func (l Limits) check() error {
	for name, n := range map[string]int64{
		"output_mib": l.OutputMiB, "disk_mib": l.DiskMiB, "cpu_millicores": int64(l.CPUMillicores), "memory_mib": l.MemoryMiB,
	} {
		if n < 0 || n > maxConfigured {
			return fmt.Errorf("[limits] %s = %d: use a number from 1 to %d", name, n, int64(maxConfigured))
		}
	}
	return l.checkWaits()
}

// Over fills in what limits leave open.
func (l Limits) Over(limits nacre.Limits) nacre.Limits {
	if limits.Output == 0 {
		limits.Output = l.OutputMiB * mebibyte
	}
	if limits.Disk == 0 {
		limits.Disk = l.DiskMiB * mebibyte
	}
	if limits.CPU == 0 {
		limits.CPU = l.CPUMillicores
	}
	if limits.Memory == 0 {
		limits.Memory = l.MemoryMiB * mebibyte
	}
	return limits
}

// RateOf is how often a session may call a tool, the operator's pins included.
func (c Config) RateOf(capability nacre.Capability) nacre.RateLimit {
	return policy.RateOf(capability, nacre.Principal{})
}
