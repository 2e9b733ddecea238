//go:build linux

package probe

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

func fileSystem() []Probe {
	const class = "fs"
	return []Probe{
		{class, "fs-read-outside", Always, func(t Target) Finding { return findIn(t, t.Secret) }},
		{class, "fs-write-outside", Always, func(t Target) Finding { return create(t.Outside, 0o644) }},
		{class, "fs-proc-init-root", Always, func(t Target) Finding { return findIn(t, "/proc/"+strconv.Itoa(t.Init)+"/root"+t.Secret) }},
		{class, "fs-proc-host-root", Always, func(t Target) Finding {
			return findIn(t, "/proc/"+strconv.Itoa(t.HostPid)+"/root"+t.Secret)
		}},
		{class, "fs-symlink", Always, symlinkOut},
		{class, "fs-hardlink", Always, hardlinkOut},
		{class, "fs-dotdot", Always, func(t Target) Finding {
			return findIn(t, t.Project+"/../../../../../../../../../.."+t.Secret)
		}},
		{class, "fs-masked", Always, func(t Target) Finding { return findIn(t, filepath.Join(t.Project, ".env")) }},
		{class, "fs-unmask", AsRoot, func(t Target) Finding {
			return permitted(unix.Unmount(filepath.Join(t.Project, ".env"), unix.MNT_DETACH), "unmount is permitted")
		}},
		{class, "fs-write-root", AsRoot, func(Target) Finding { return create("/", 0o644) }},
		{class, "fs-write-etc", AsRoot, func(Target) Finding { return create("/etc", 0o644) }},
		{class, "fs-write-tools", AsRoot, func(Target) Finding { return create("/usr/bin", 0o755) }},
		{class, "fs-mount-tmpfs", AsRoot, mountTmpfs},
		{class, "fs-remount", AsRoot, func(Target) Finding {
			return permitted(unix.Mount("", "/nowhere", "", unix.MS_REMOUNT|unix.MS_BIND, ""), "remount is permitted")
		}},
		{class, "fs-open-tree", AsRoot, func(Target) Finding {
			fd, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE)
			return closing(fd, err, "the root was cloned")
		}},
		{class, "fs-fsopen", AsRoot, func(Target) Finding {
			fd, err := unix.Fsopen("tmpfs", 0)
			return closing(fd, err, "a file system was opened")
		}},
		{class, "fs-mount-setattr", AsRoot, func(Target) Finding {
			err := unix.MountSetattr(unix.AT_FDCWD, "/nowhere", 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
			return permitted(err, "mounts can be changed")
		}},
		{class, "fs-pivot-root", AsRoot, func(Target) Finding {
			return permitted(unix.PivotRoot("/nowhere", "/nowhere"), "pivot_root is permitted")
		}},
		{class, "fs-chroot", AsRoot, func(t Target) Finding { return attempt(unix.Chroot(t.Tmp), "chroot") }},
		{class, "fs-device-node", AsRoot, deviceNode},
		{class, "fs-handle", AsRoot, openHandle},
		{class, "fs-inherited-descriptor", Always, inherited},
		{class, "fs-setuid-chmod", Always, setUIDBy(func(name string) error { return unix.Chmod(name, unix.S_ISUID|0o755) })},
		{class, "fs-setuid-fchmodat2", WhereBuilt, setUIDBy(func(name string) error {
			return unix.Fchmodat(unix.AT_FDCWD, name, unix.S_ISGID|0o755, unix.AT_SYMLINK_NOFOLLOW)
		})},
		{class, "fs-setuid-create", Always, func(t Target) Finding { return create(t.Project, unix.S_ISUID|0o755) }},
		{class, "fs-whiteout", WhereBuilt, whiteout},
		{class, "fs-lease", WhereBuilt, lease},
		{class, "fs-setuid-mknod", Always, func(t Target) Finding {
			name := scratchName(t.Project)
			defer func() { _ = os.Remove(name) }()
			return attempt(unix.Mknod(name, unix.S_IFREG|unix.S_ISUID|0o755, 0), "a set-uid file was made")
		}},
		{class, "fs-root-user-files", AsRoot, func(t Target) Finding {
			name := scratchName(t.Project)
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				return untestable(err)
			}
			defer func() { _ = os.Remove(name) }()
			return attempt(os.Chown(name, 1, 1), "files were given to another user")
		}},
	}
}

func scratchName(dir string) string {
	return filepath.Join(dir, fmt.Sprintf(".nacre-probe-%d", os.Getpid()))
}

// findIn looks for the marker in a file.
func findIn(t Target, name string) Finding {
	text, err := os.ReadFile(name)
	if err != nil {
		return blocked("%v", err)
	}
	if bytes.Contains(text, []byte(t.Marker)) {
		return escaped("the secret was read from %s", name)
	}
	return blocked("%s holds something else", name)
}

// create makes a file with a mode, and removes it.
func create(dir string, mode uint32) Finding {
	name := scratchName(dir)
	old := unix.Umask(0)
	fd, err := unix.Open(name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, mode)
	unix.Umask(old)
	if err != nil {
		return blocked("%v", err)
	}
	defer func() { _ = os.Remove(name) }()
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return untestable(err)
	}
	if st.Mode&0o7777 != mode {
		return blocked("made with mode %o", st.Mode&0o7777)
	}
	return escaped("made %s with mode %o", name, mode)
}

func closing(fd int, err error, what string) Finding {
	if err == nil {
		_ = unix.Close(fd)
	}
	return attempt(err, what)
}

func symlinkOut(t Target) Finding {
	name := scratchName(t.Project)
	if err := os.Symlink(t.Secret, name); err != nil {
		return untestable(err)
	}
	defer func() { _ = os.Remove(name) }()
	return findIn(t, name)
}

func hardlinkOut(t Target) Finding {
	name := scratchName(t.Project)
	if err := os.Link(t.Secret, name); err != nil {
		return blocked("%v", err)
	}
	defer func() { _ = os.Remove(name) }()
	return findIn(t, name)
}

func mountTmpfs(t Target) Finding {
	dir, err := os.MkdirTemp(t.Tmp, "probe")
	if err != nil {
		return untestable(err)
	}
	defer func() { _ = os.Remove(dir) }()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4k"); err != nil {
		return blocked("%v", err)
	}
	return attempt(unix.Unmount(dir, 0), "a tmpfs was mounted")
}

func deviceNode(t Target) Finding {
	name := scratchName(t.Project)
	err := unix.Mknod(name, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3)))
	if err == nil {
		_ = os.Remove(name)
	}
	return attempt(err, "a device node was made")
}

// openHandle opens the root of the file system by its handle, past every mount.
func openHandle(t Target) Finding {
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, t.Project, 0)
	if err != nil {
		return blocked("%v", err)
	}
	at, err := unix.Open(t.Project, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return untestable(err)
	}
	defer func() { _ = unix.Close(at) }()
	fd, err := unix.OpenByHandleAt(at, handle, unix.O_RDONLY)
	return closing(fd, err, "a file was opened by its handle")
}

// inherited looks for descriptors that this process did not open.
func inherited(t Target) Finding {
	for fd := 3; fd < 1024; fd++ {
		buf := make([]byte, 4096)
		n, err := unix.Pread(fd, buf, 0)
		if err == nil && bytes.Contains(buf[:max(n, 0)], []byte(t.Marker)) {
			return escaped("descriptor %d leads to the secret", fd)
		}
	}
	return blocked("no descriptor leads to the secret")
}

func setUIDBy(change func(string) error) func(Target) Finding {
	return func(t Target) Finding {
		name := scratchName(t.Project)
		if err := os.WriteFile(name, nil, 0o755); err != nil {
			return untestable(err)
		}
		defer func() { _ = os.Remove(name) }()
		err := change(name)
		if errors.Is(err, unix.EOPNOTSUPP) {
			return blocked("%v", err)
		}
		var st unix.Stat_t
		if statErr := unix.Stat(name, &st); err == nil && statErr == nil && st.Mode&(unix.S_ISUID|unix.S_ISGID) == 0 {
			return blocked("the bits were dropped")
		}
		return attempt(err, "a set-id file was made")
	}
}

// pointer is for calls that take one, which must not be followed.
func pointer(v *byte) uintptr { return uintptr(unsafe.Pointer(v)) }

// whiteout leaves a device node behind a file that is renamed.
func whiteout(t Target) Finding {
	name := scratchName(t.Project)
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		return untestable(err)
	}
	err := unix.Renameat2(unix.AT_FDCWD, name, unix.AT_FDCWD, name+"-moved", unix.RENAME_WHITEOUT)
	_, _ = os.Remove(name), os.Remove(name+"-moved") // one of them is not there
	return attempt(err, "a device node")
}

// lease makes whoever opens a file of the project wait, for 45 seconds each time.
func lease(t Target) Finding {
	f, err := os.OpenFile(scratchName(t.Project), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return untestable(err)
	}
	defer func() { _, _ = os.Remove(f.Name()), f.Close() }() // the file was this probe's own
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	return attempt(err, "a lease of a file")
}
