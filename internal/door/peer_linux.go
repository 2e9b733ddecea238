package door

import (
	"fmt"
	"net"
	"slices"
	"syscall"
)

// checkPeer accepts a connection made by one of the users. The kernel names
// the user as of connect, in this process's numbering.
func checkPeer(nc *net.UnixConn, allowed []uint32) error {
	raw, err := nc.SyscallConn()
	if err != nil {
		return fmt.Errorf("peer: %w", err)
	}
	var cred *syscall.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err != nil || failed != nil {
		return fmt.Errorf("peer: no credentials: %w", firstError(err, failed))
	}
	if !slices.Contains(allowed, cred.Uid) {
		return fmt.Errorf("peer: user %d is not one that the session declares", cred.Uid)
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
