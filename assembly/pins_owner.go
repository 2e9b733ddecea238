package assembly

import (
	"errors"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// asOwner does something with the file system's rights of the owner of a folder
// where this process is root, and as it is otherwise.
func asOwner(dir int, do func() error) error {
	var stat unix.Stat_t
	if err := unix.Fstat(dir, &stat); err != nil {
		return err
	}
	if os.Geteuid() != 0 || stat.Uid == 0 {
		return do()
	}
	runtime.LockOSThread() // the rights are a thread's
	group, _ := unix.SetfsgidRetGid(int(stat.Gid))
	user, _ := unix.SetfsuidRetUid(int(stat.Uid))
	err := errThread
	if now, _ := unix.SetfsuidRetUid(-1); now == int(stat.Uid) {
		err = do()
	}
	_, _ = unix.SetfsuidRetUid(user)
	_, _ = unix.SetfsgidRetGid(group)
	if now, _ := unix.SetfsuidRetUid(-1); now != user {
		return errors.Join(err, errThread) // the thread stays locked, so that it ends with its goroutine
	}
	runtime.UnlockOSThread()
	return err
}

var errThread = errors.New("the rights of a thread cannot be set")
