//go:build !linux

package container

import (
	"errors"
	"net"

	"github.com/nacre-dev/nacre/internal/sandbox/inside"
	"github.com/nacre-dev/nacre/internal/sandbox/loopback"
)

// unmount is never needed: nothing is mounted for an ordinary user.
func unmount(string) error { return errors.ErrUnsupported }

// sendWork hands PID 1 its work.
func sendWork(control *net.UnixConn, work inside.Container, network *loopback.Network) error {
	if network != nil {
		return loopback.ErrNone
	}
	return inside.Send(control, work)
}
