package disk

import (
	"errors"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// AsOwner does something with the file system's rights of the owner of a folder
// where this process is root, and as it is otherwise.
func AsOwner(dir int, do func() error) error {
	var stat unix.Stat_t
	if err := unix.Fstat(dir, &stat); err != nil {
		return err
	}
	if os.Geteuid() != 0 || stat.Uid == 0 {
		return do()
	}
	groups, err := unix.Getgroups()
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	if err = (rights{int(stat.Uid), int(stat.Gid), nil}).take(); err == nil {
		err = do()
	}
	if back := (rights{0, os.Getegid(), groups}).take(); back != nil {
		return errors.Join(err, back) // nothing else runs on this thread: it ends with its goroutine
	}
	runtime.UnlockOSThread()
	return err
}

// rights are what one thread may do in the file system.
type rights struct {
	user, group int
	groups      []int
}

func (r rights) take() error {
	if err := unix.Setgroups(r.groups); err != nil { // of this thread alone, unlike package syscall's
		return err
	}
	_, _ = unix.SetfsgidRetGid(r.group) // tell nothing of failure
	_, _ = unix.SetfsuidRetUid(r.user)
	group, _ := unix.SetfsgidRetGid(-1)
	user, _ := unix.SetfsuidRetUid(-1)
	if user != r.user || group != r.group {
		return errors.New("the rights of a thread cannot be set")
	}
	return nil
}
