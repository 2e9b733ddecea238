package door

import (
	"fmt"
	"net"
	"slices"

	"github.com/nacre-dev/nacre/internal/socket"
)

// checkPeer accepts a connection made by one of the users. The kernel names
// the user as of connect, in this process's numbering.
func checkPeer(nc *net.UnixConn, allowed []uint32) error {
	user, err := socket.User(nc)
	if err != nil {
		return fmt.Errorf("peer: no credentials: %w", err)
	}
	if !slices.Contains(allowed, user) {
		return fmt.Errorf("peer: user %d is not one that the session declares", user)
	}
	return nil
}
