package inside

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// attachOverlay shows a read-only tree with a writable layer over it that lives
// in memory and ends with the sandbox: a warm build cache that nobody can spoil.
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
	if err := r.layers(m, tree, place); err != nil {
		return errors.Join(fmt.Errorf("overlay: %w", err), removeLayers(place))
	}
	merged, err := newOverlay(place, m.NoExec)
	if err != nil {
		return errors.Join(err, removeLayers(place))
	}
	defer func() { _ = unix.Close(merged) }()
	// The overlay holds its layers by itself: their own mounts may go.
	return errors.Join(moveTo(merged, target), removeLayers(place))
}

// layers puts the tree and an empty tmpfs where an overlay can name them.
func (r *root) layers(m Mount, tree int, place string) error {
	for _, dir := range []string{"/lower", "/layer"} {
		if err := os.MkdirAll(place+dir, 0o755); err != nil {
			return err
		}
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, place+"/lower", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return err
	}
	size := m.Size
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
		if err := os.Chown(place+dir, r.owner, r.owner); err != nil {
			return err
		}
	}
	return nil
}

func newOverlay(place string, noExec bool) (int, error) {
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
	if err := unix.FsconfigSetFlag(fs, "userxattr"); err != nil {
		return -1, fmt.Errorf("overlay: %w", err)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("overlay: %w", err)
	}
	attributes := baseAttributes
	if noExec {
		attributes |= unix.MOUNT_ATTR_NOEXEC
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return -1, fmt.Errorf("overlay: %w", err)
	}
	return fd, nil
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
