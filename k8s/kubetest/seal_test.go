package kubetest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// sealMode is the first argument of this test's own program when it makes a box.
const sealMode = "seal-a-pod"

// sealedBox is a container: namespaces of its own, a root that cannot be written, the
// volumes, no capability, and no network but its holes.
type sealedBox struct {
	Root    string
	Program string
	Argv    []string
	Env     []string
	Mounts  []boxMount
	Holes   []int
	UID     int64
}

type boxMount struct {
	Source, Target string
	ReadOnly       bool
}

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == sealMode {
		runtime.LockOSThread()
		fmt.Fprintln(os.Stderr, "seal:", seal(os.Args[2]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// namespaces are made by the kernel before the box begins; what makes it has powers in
// them, and gives them up.
func (b sealedBox) namespaces() *syscall.SysProcAttr {
	id := int(b.UID)
	return &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: id, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: id, HostID: os.Getegid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP}, Pdeathsig: syscall.SIGKILL,
	}
}

// seal becomes the container's command, or says why not.
func seal(text string) error {
	var b sealedBox
	if err := json.Unmarshal([]byte(text), &b); err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{{"network", b.network}, {"root", b.root}, {"powers", dropPowers}} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return syscall.Exec(b.Argv[0], b.Argv, b.Env)
}

// network brings the loopback up, and hands the listening ends of the holes out.
func (b sealedBox) network() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return err
	}
	for _, port := range b.Holes {
		l, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		if err := unix.Bind(l, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			return err
		}
		if err := unix.Listen(l, 16); err != nil {
			return err
		}
		if err := unix.Sendmsg(3, []byte{0}, unix.UnixRights(l), nil, 0); err != nil {
			return err
		}
		if err := unix.Close(l); err != nil {
			return err
		}
	}
	return unix.Close(3)
}

// root is the machine's tools, as an image has them, and the volumes.
func (b sealedBox) root() error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return err
	}
	if err := unix.Mount("image", b.Root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return err
	}
	image := []boxMount{{b.Program, "/nacre/sandbox-init", true}}
	for _, dir := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64"} {
		if target, err := os.Readlink(dir); err == nil {
			if err := os.Symlink(target, filepath.Join(b.Root, dir)); err != nil {
				return err
			}
		} else if _, err := os.Stat(dir); err == nil {
			image = append(image, boxMount{dir, dir, true})
		}
	}
	for _, device := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		image = append(image, boxMount{"/dev/" + device, "/dev/" + device, false})
	}
	for _, m := range append(image, b.Mounts...) {
		if err := b.bind(m); err != nil {
			return fmt.Errorf("%s: %w", m.Target, err)
		}
	}
	proc := filepath.Join(b.Root, "proc")
	if err := os.Mkdir(proc, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("proc", proc, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("proc: %w", err)
	}
	if err := unix.Mount("", b.Root, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
		return err
	}
	if err := unix.Chdir(b.Root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	return unix.Chdir("/")
}

func (b sealedBox) bind(m boxMount) error {
	target := filepath.Join(b.Root, m.Target)
	info, err := os.Stat(m.Source)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(target, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(target), 0o755); err == nil {
		err = os.WriteFile(target, nil, 0o644)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(m.Source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil || !m.ReadOnly {
		return err
	}
	return unix.MountSetattr(unix.AT_FDCWD, target, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// dropPowers does as the runtime of a restricted container does.
func dropPowers() error {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if held, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err == nil && held != 0 {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
				return err
			}
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	var none [2]unix.CapUserData
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}
