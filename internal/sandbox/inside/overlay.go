//go:build linux

package inside

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// attachOverlay shows a read-only tree with a writable layer over it. The layer lives in memory and
// ends with the sandbox, such as a warm build cache's that nobody can spoil, or it is one that the
// host keeps.
func (r *root) attachOverlay(m Mount, tree int) error {
	if tree < 0 {
		return nil // optional, and absent
	}
	defer func() { _ = unix.Close(tree) }()
	target, err := r.target(m.Target, true)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(target) }()
	place := r.at(scaffold + "/overlay")
	if err := layers(m, r.owner, tree, place); err != nil {
		return errors.Join(fmt.Errorf("overlay: %w", err), removeLayers(place))
	}
	var merged int
	err = asOwner(r.owner, func() (err error) {
		merged, err = newOverlay(place, m)
		return err
	})
	if err != nil {
		return errors.Join(err, removeLayers(place))
	}
	defer func() { _ = unix.Close(merged) }()
	// The overlay holds its layers by itself: their own mounts may go.
	return errors.Join(moveTo(merged, target), removeLayers(place))
}

// layers puts the tree and its layer where an overlay can name them.
func layers(m Mount, owner, tree int, place string) error {
	for _, dir := range []string{"/lower", "/layer"} {
		if err := os.MkdirAll(place+dir, 0o755); err != nil {
			return err
		}
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, place+"/lower", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return err
	}
	if m.Layer != nil {
		layer, err := openTreeOf(*m.Layer)
		if err != nil {
			return fmt.Errorf("layer: %w", err)
		}
		defer func() { _ = unix.Close(layer) }()
		return unix.MoveMount(layer, "", unix.AT_FDCWD, place+"/layer", unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	return memoryLayer(m.Size, owner, place)
}

// memoryLayer is an empty tmpfs with the folders of a layer, which are the owner's.
func memoryLayer(size int64, owner int, place string) error {
	if size == 0 {
		size = defaultSize
	}
	layer, err := newTmpfs(size, 0o755, 0, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(layer) }()
	if err := unix.MoveMount(layer, "", unix.AT_FDCWD, place+"/layer", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return err
	}
	for _, dir := range []string{"/layer/upper", "/layer/work"} {
		if err := os.Mkdir(place+dir, 0o755); err != nil {
			return err
		}
		if err := os.Chown(place+dir, owner, owner); err != nil {
			return err
		}
	}
	return nil
}

// asOwner makes files as the agent does, with the rights of PID 1: in what the host
// shows as the agent's there is nobody else who could own one. An overlay goes on
// so with whoever made it.
func asOwner(owner int, make func() error) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := unix.SetfsuidRetUid(owner)
	if err != nil || before == owner {
		return errors.Join(err, make())
	}
	group, err := unix.SetfsgidRetGid(owner)
	if err == nil {
		err = restoreRights() // which went with the user
	}
	if err == nil {
		err = make()
	}
	_, uidErr := unix.SetfsuidRetUid(before)
	_, gidErr := unix.SetfsgidRetGid(group)
	return errors.Join(err, uidErr, gidErr)
}

// restoreRights gives the thread all the capabilities again that it may have.
func restoreRights() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	for i := range data {
		data[i].Effective = data[i].Permitted
	}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}

// newOverlay merges the layers. What the layer of the host keeps is the host's to read, so nothing
// is put there that only an overlay understands but what hides. There is no redirection of renamed
// folders, and there are no copies of attributes alone. The kernel does not make these either for
// those whose attributes are a user's. It is read as soon as the sandbox has ended, and made anew
// after a crash: the kernel need not write it to the disk before.
func newOverlay(place string, m Mount) (int, error) {
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("overlay: %w", err)
	}
	defer func() { _ = unix.Close(fs) }()
	for _, o := range [][2]string{{"lowerdir", "/lower"}, {"upperdir", "/layer/upper"}, {"workdir", "/layer/work"}} {
		if err := unix.FsconfigSetString(fs, o[0], place+o[1]); err != nil {
			return -1, fmt.Errorf("overlay %s: %w", o[0], err)
		}
	}
	flags := []string{"userxattr"}
	if m.Layer != nil {
		flags = append(flags, "volatile")
		for _, o := range [][2]string{{"metacopy", "off"}, {"index", "off"}, {"xino", "off"}} {
			if err := unix.FsconfigSetString(fs, o[0], o[1]); err != nil {
				return -1, fmt.Errorf("overlay %s: %w", o[0], err)
			}
		}
	}
	for _, flag := range flags {
		if err := unix.FsconfigSetFlag(fs, flag); err != nil {
			return -1, fmt.Errorf("overlay %s: %w", flag, err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("overlay: %w", err)
	}
	if m.Layer != nil {
		if err := openKernelFolders(place + "/layer/work"); err != nil {
			return -1, fmt.Errorf("overlay: %w", err)
		}
	}
	attributes := baseAttributes
	if m.NoExec {
		attributes |= unix.MOUNT_ATTR_NOEXEC
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return -1, fmt.Errorf("overlay: %w", err)
	}
	return fd, nil
}

// openKernelFolders lets the layer's owner into what the kernel made for
// itself: it shuts them, and an ordinary user could remove no session that was cut
// short. The kernel goes into them with rights of its own.
func openKernelFolders(work string) error {
	for _, name := range []string{"/work", "/work/incompat", "/work/incompat/volatile", "/work/incompat/volatile/dirty"} {
		if err := os.Chmod(work+name, 0o700); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func removeLayers(place string) error {
	var errs []error
	for _, dir := range []string{"/lower", "/layer"} {
		if err := unix.Unmount(place+dir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, os.RemoveAll(place))...)
}
