package container

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/sandbox/inside"
	"github.com/nacre-dev/nacre/internal/sandbox/loopback"
)

func unmount(place string) error { return unix.Unmount(place, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) }

// sendWork hands PID 1 its work, and what it is asked for sockets on.
func sendWork(control *net.UnixConn, work inside.Container, network *loopback.Network) error {
	if network == nil {
		return inside.SendWork(control, work, nil)
	}
	theirs, err := network.HandOver()
	if err != nil {
		return err
	}
	return errors.Join(inside.SendWork(control, work, theirs), theirs.Close())
}
