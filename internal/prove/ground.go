//go:build linux

package prove

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/sandbox/probe"
)

const (
	token = "nacre-probe-token-71d0" //nolint:gosec // a decoy
	// secretVariable is in the environment of the process that starts sandboxes.
	secretVariable = "NACRE_PROBE_SECRET" //nolint:gosec // a name
)

// Ground is the decoys on this machine. Nothing but them is harmed.
type Ground struct {
	options   Options
	target    probe.Target
	dir       string // of all that is laid
	templates string // the projects that each probe gets a copy of
	sockets   string // with the egress proxy's
	root      bool
	undo      []func()
}

// Lay sets up everything on the host that a probe may reach for. Whoever lays it
// lifts it.
func Lay(ctx context.Context, o Options) (*Ground, error) {
	g := &Ground{options: o, root: os.Geteuid() == 0}
	for _, lay := range []func(context.Context) error{g.folders, g.facts, g.processes, g.listeners, g.shared, g.proxy} {
		if err := lay(ctx); err != nil {
			g.Lift()
			return nil, err
		}
	}
	return g, nil
}

// Lift takes everything away again.
func (g *Ground) Lift() {
	for len(g.undo) > 0 {
		last := len(g.undo) - 1
		undo := g.undo[last]
		g.undo = g.undo[:last]
		undo()
	}
}

func (g *Ground) later(undo func()) { g.undo = append(g.undo, undo) }

// folders are a secret, and room for what probes leave. The path is short, for
// sockets are in it.
func (g *Ground) folders(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "prove")
	if err != nil {
		return err
	}
	g.dir = dir
	g.later(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // what keeps a sandbox's user out shall be the sandbox
		return err
	}
	g.target = probe.Target{
		Files: probe.Files{Secret: filepath.Join(dir, "private", "secret"), Outside: dir, Shm: "/dev/shm", Tmp: "/tmp"},
		Listeners: probe.Listeners{
			Abstract: fmt.Sprintf("nacre-probe-%d", os.Getpid()), Socket: filepath.Join(dir, "host.sock"),
			Allowed: allowedHost, Plain: plainHost, Private: privateHost,
		},
		Limits: probe.Limits{Processes: 64, OpenFiles: 512, Memory: 128 << 20, FileSize: 1 << 30, Space: 256 << 20},
		Marker: marker, Token: token,
	}
	if err := os.Mkdir(filepath.Dir(g.target.Secret), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(g.target.Secret, []byte(marker), 0o600); err != nil {
		return err
	}
	if g.templates, err = templates(ctx, dir); err != nil {
		return err
	}
	if g.target.Shown, err = shown(dir); err != nil {
		return err
	}
	g.target, err = g.fresh(g.target, false)
	return err
}

// shown are two folders that a sandbox is shown while it runs, with what it must not find beside them.
func shown(dir string) (probe.Shown, error) {
	around := filepath.Join(dir, "around")
	on := probe.Shown{Folder: filepath.Join(around, "shown"), Gone: filepath.Join(around, "gone")}
	secret := filepath.Join(around, probe.ShownSecret)
	return on, errors.Join(
		os.MkdirAll(on.Folder, 0o700), os.Mkdir(on.Gone, 0o700),
		os.WriteFile(secret, []byte(marker), 0o600), os.WriteFile(filepath.Join(on.Gone, probe.ShownSecret), []byte(marker), 0o600),
		os.WriteFile(filepath.Join(on.Folder, probe.ShownNote), nil, 0o600), os.Symlink(secret, filepath.Join(on.Folder, probe.ShownLink)))
}

// facts are what a sandbox must not learn, and what a user of the host may have.
func (g *Ground) facts(context.Context) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	g.target.HostName = name
	if g.target.Root, err = probe.RootMount(); err != nil {
		return err
	}
	for path, fact := range map[string]*string{"/proc/sys/kernel/random/boot_id": &g.target.Boot, "/proc/cmdline": &g.target.CommandLine} {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		*fact = string(text)
	}
	g.target.Boot = strings.TrimSpace(g.target.Boot)
	instances, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
	if err != nil {
		return err
	}
	if g.target.Watches, err = strconv.Atoi(strings.TrimSpace(string(instances))); err != nil {
		return err
	}
	before, there := os.LookupEnv(secretVariable)
	g.later(func() {
		_ = os.Unsetenv(secretVariable)
		if there {
			_ = os.Setenv(secretVariable, before)
		}
	})
	return os.Setenv(secretVariable, marker)
}

// processes are two decoys with the marker in their arguments and environments, and
// the secret left open in this process, without close-on-exec.
func (g *Ground) processes(ctx context.Context) error {
	for _, pid := range []*int{&g.target.HostPid, &g.target.Init} {
		if err := g.decoy(ctx, pid); err != nil {
			return err
		}
	}
	open, err := unix.Open(g.target.Secret, unix.O_RDONLY, 0) // inheritable, which is what a probe tries
	if err != nil {
		return err
	}
	g.later(func() { _ = unix.Close(open) })
	return nil
}

func (g *Ground) decoy(ctx context.Context, pid *int) error {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), g.options.Program) // Lift ends it
	cmd.Args, cmd.Env = []string{probe.DecoyName, marker}, append(os.Environ(), "SECRET="+marker)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	*pid = cmd.Process.Pid
	g.later(func() {
		_ = in.Close()
		_ = cmd.Wait() // a probe may have killed it
	})
	return nil
}

// listeners answer on the host, by every way that leads to one.
func (g *Ground) listeners(ctx context.Context) error {
	tcp, err := g.listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	g.target.TCP, g.target.TCP6 = tcp, "[::1]:1"
	if tcp6, err := g.listen(ctx, "tcp6", "[::1]:0"); err == nil { // a machine may have no IPv6
		g.target.TCP6 = tcp6
	}
	for _, address := range []string{"@" + g.target.Abstract, g.target.Socket} {
		if _, err := g.listen(ctx, "unix", address); err != nil {
			return err
		}
	}
	return g.echo(ctx)
}

func (g *Ground) listen(ctx context.Context, network, address string) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, network, address)
	if err != nil {
		return "", err
	}
	g.later(func() { _ = l.Close() })
	return l.Addr().String(), nil
}

func (g *Ground) echo(ctx context.Context) error {
	var config net.ListenConfig
	c, err := config.ListenPacket(ctx, "udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 16)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(buf[:n], from)
		}
	}()
	g.later(func() { _ = c.Close(); <-done })
	g.target.UDP = c.LocalAddr().String()
	return nil
}

// shared are what processes of one machine share beside files: a memory segment, a
// semaphore, message queues, a lock, and descriptors that are on their way.
func (g *Ground) shared(context.Context) error {
	g.target.ShmKey = 0x6e610000 | os.Getpid()&0xffff
	segment, err := unix.SysvShmGet(g.target.ShmKey, 4096, unix.IPC_CREAT|0o600)
	if err != nil {
		return fmt.Errorf("make a shared memory segment: %w", err)
	}
	g.later(func() { _, _ = unix.SysvShmCtl(segment, unix.IPC_RMID, nil) })
	if err := g.queues(); err != nil {
		return err
	}
	program, err := os.Open(g.options.Program)
	if err != nil {
		return err
	}
	g.later(func() { _ = program.Close() })
	if err := unix.Flock(int(program.Fd()), unix.LOCK_SH); err != nil {
		return fmt.Errorf("lock the program of the probes: %w", err)
	}
	return g.sending(g.target.InFlight())
}

// queues makes a semaphore and message queues, where the kernel has them.
func (g *Ground) queues() error {
	key := uintptr(g.target.ShmKey)
	if id, _, e := unix.Syscall(unix.SYS_SEMGET, key, 1, unix.IPC_CREAT|0o600); e == 0 {
		g.later(func() { _, _, _ = unix.Syscall(unix.SYS_SEMCTL, id, 0, unix.IPC_RMID) })
	}
	if id, _, e := unix.Syscall(unix.SYS_MSGGET, key, unix.IPC_CREAT|0o600, 0); e == 0 {
		g.later(func() { _, _, _ = unix.Syscall(unix.SYS_MSGCTL, id, unix.IPC_RMID, 0) })
	}
	name, err := unix.BytePtrFromString(g.target.QueueName())
	if err != nil {
		return err
	}
	fd, _, e := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_CREAT|unix.O_RDWR, 0o600, 0, 0, 0)
	if e == 0 {
		g.later(func() {
			_ = unix.Close(int(fd))
			_, _, _ = unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(name)), 0, 0)
		})
	}
	return nil
}

// sending keeps descriptors on their way to nobody.
func (g *Ground) sending(n int) error {
	const most = 250 // in one message
	for ; n > 0; n -= most {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		g.later(func() { _, _ = unix.Close(pair[0]), unix.Close(pair[1]) })
		rights := make([]int, min(n, most))
		for i := range rights {
			rights[i] = pair[1]
		}
		if err := unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(rights...), nil, 0); err != nil {
			return errors.Join(errors.New("send descriptors"), err)
		}
	}
	return nil
}
