//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/sandbox/inside"
	"github.com/nacre-dev/nacre/internal/sandbox/spawn"
)

var placeName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$`) })

// Show implements [Shown]. A child of this process does it by a list of system calls: it joins
// the sandbox's user namespace, which owns its mounts, makes the bind and joins the mounts. As an
// ordinary user it makes the bind in a copy of the host's mounts, where it is in the folder that
// was opened before: no path is resolved again.
func (p *process) Show(f *Folder, place string) error {
	if !placeName().MatchString(place) {
		return fmt.Errorf("%.64q is not the name of a place", place)
	}
	if err := f.unchanged(); err != nil {
		return err
	}
	joined, err := p.namespaces()
	if err != nil {
		return err
	}
	defer closeFiles(joined)
	folder, mapped := f.source.file, f.native.users.privileged
	if mapped {
		if folder, err = f.native.cloneOne(f.source); err != nil {
			return err
		}
		defer func() { _ = folder.Close() }() // the sandbox has its own
	}
	const tree, users, mounts = 0, 1, 2
	var list spawn.Program
	list.Files([]uintptr{folder.Fd(), joined[0].Fd(), joined[1].Fd()})
	if !mapped {
		list.Do("enter the folder", unix.SYS_FCHDIR, tree)
	}
	joinUsers(&list, users)
	allowMounts(&list, users, "4")
	if !mapped {
		list.Do("copy of the mounts", unix.SYS_UNSHARE, unix.CLONE_NEWNS)
		list.Do("descriptor", unix.SYS_CLOSE, tree) // so that the next one has its number
		list.Do("bind", unix.SYS_OPEN_TREE, here, list.Text("."), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		setAttributes(&list, tree, inside.TreeAttributes(true, false))
	}
	joinMounts(&list, mounts)
	list.Do("umask", unix.SYS_UMASK, 0o022)
	list.Try(unix.SYS_MKDIRAT, mounts, list.Text(FoldersDir[1:]), 0o755)
	list.Try(unix.SYS_MKDIRAT, mounts, list.Text(FoldersDir[1:]+"/"+place), 0o755)
	list.Do("place "+FoldersDir+"/"+place, unix.SYS_MOVE_MOUNT, tree, list.Text(""), here, list.Text(FoldersDir+"/"+place), unix.MOVE_MOUNT_F_EMPTY_PATH)
	return carryOut(&list, users, joined)
}

// Hide implements [Shown].
func (p *process) Hide(place string) error {
	if !placeName().MatchString(place) {
		return fmt.Errorf("%.64q is not the name of a place", place)
	}
	joined, err := p.namespaces()
	if err != nil {
		return err
	}
	defer closeFiles(joined)
	const users, mounts = 0, 1
	var list spawn.Program
	list.Files([]uintptr{joined[0].Fd(), joined[1].Fd()})
	joinUsers(&list, users)
	allowMounts(&list, users, "4")
	joinMounts(&list, mounts)
	list.Do("take away "+FoldersDir+"/"+place, unix.SYS_UMOUNT2, list.Text(FoldersDir+"/"+place), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	list.Try(unix.SYS_UNLINKAT, mounts, list.Text(FoldersDir[1:]+"/"+place), unix.AT_REMOVEDIR)
	return carryOut(&list, users, joined)
}

// here is AT_FDCWD as an argument.
const here = ^uintptr(-unix.AT_FDCWD - 1)

// joinUsers makes the child the first user of the sandbox, whom no process inside is: the agent
// is in a namespace below.
func joinUsers(list *spawn.Program, users uintptr) {
	list.Do("users of the sandbox", unix.SYS_SETNS, users, unix.CLONE_NEWUSER)
	list.Try(unix.SYS_SETGROUPS, 0, 0) // an ordinary user has given that up
	list.Do("group", unix.SYS_SETGID, 0)
	list.Do("user", unix.SYS_SETUID, 0)
}

// allowMounts says how many copies of mounts the sandbox's users may make, which is none while its
// agent works. That is a second lock behind the filter of system calls and the agent's lack of
// powers. The file takes the place of the descriptor of those users, who were joined.
func allowMounts(list *spawn.Program, place uintptr, many string) {
	list.Do("descriptor", unix.SYS_CLOSE, place) // so that the next one has its number
	list.Do("limit of mounts", unix.SYS_OPENAT, here, list.Text("/proc/sys/user/max_mnt_namespaces"), unix.O_WRONLY|unix.O_CLOEXEC)
	limitMounts(list, place, many)
}

func limitMounts(list *spawn.Program, file uintptr, many string) {
	list.Do("limit of mounts", unix.SYS_PWRITE64, file, list.Text(many), uintptr(len(many)), 0)
}

// joinMounts enters the sandbox's mounts, and puts in the place of their descriptor the sandbox's
// root, which can be written through it alone. What the agent has of it stays read-only.
func joinMounts(list *spawn.Program, place uintptr) {
	list.Do("mounts of the sandbox", unix.SYS_SETNS, place, unix.CLONE_NEWNS)
	list.Do("descriptor", unix.SYS_CLOSE, place)
	list.Do("root of the sandbox", unix.SYS_OPEN_TREE, here, list.Text("/"), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	setAttributes(list, place, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
}

func setAttributes(list *spawn.Program, tree uintptr, attributes *unix.MountAttr) {
	list.Do("attributes", unix.SYS_MOUNT_SETATTR, tree, list.Text(""), unix.AT_EMPTY_PATH, list.Point(unsafe.Pointer(attributes)), unsafe.Sizeof(*attributes))
}

// carryOut runs a list in a child that shares nothing with this process, and then forbids further
// copies of mounts again: file is the descriptor of their limit. Where the list ended before, that
// takes a list of its own.
func carryOut(list *spawn.Program, file uintptr, joined []*os.File) error {
	limitMounts(list, file, "0")
	err := runList(list)
	if err == nil {
		return nil
	}
	var again spawn.Program
	again.Files([]uintptr{joined[0].Fd()})
	joinUsers(&again, 0)
	allowMounts(&again, 0, "0")
	return errors.Join(err, runList(&again))
}

func runList(list *spawn.Program) error {
	child, err := list.Start(0)
	if err != nil {
		return err
	}
	defer child.End()
	if err := child.Go(); err != nil {
		return err
	}
	return child.Executed()
}

// namespaces are those of the sandbox's users and mounts. They are opened by the number of PID 1,
// which was still its own afterwards.
func (p *process) namespaces() ([]*os.File, error) {
	var opened []*os.File
	for _, kind := range []string{"user", "mnt"} {
		f, err := os.Open("/proc/" + strconv.Itoa(p.Pid()) + "/ns/" + kind)
		if err != nil {
			closeFiles(opened)
			if p.over() {
				return nil, ErrOver
			}
			return nil, fmt.Errorf("namespaces of the sandbox: %w", err)
		}
		opened = append(opened, f)
	}
	if p.over() {
		closeFiles(opened)
		return nil, ErrOver
	}
	return opened, nil
}

func (p *process) over() bool { return p.first.process.Signal(syscall.Signal(0)) != nil }
