package socket

import (
	"context"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Dial connects to a socket, whose path takes at most 103 bytes here. This kernel opens no
// socket to look at it: the name has to lead to the same one before and after.
func Dial(ctx context.Context, name string) (net.Conn, error) {
	before, err := look(name)
	if err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", name)
	if err != nil {
		return nil, err
	}
	if after, err := look(name); err != nil || !os.SameFile(before, after) {
		_ = conn.Close() // nothing was said
		return nil, fmt.Errorf("%s was replaced: refused", name)
	}
	return conn, nil
}

func look(name string) (os.FileInfo, error) {
	info, err := os.Lstat(name)
	if err == nil && info.Mode().Type() != os.ModeSocket {
		err = fmt.Errorf("%s is not a socket: refused", name)
	}
	return info, err
}

// User is who made a connection, at the moment of connecting.
func User(conn *net.UnixConn) (uint32, error) {
	return control(conn, func(fd int) (uint32, error) {
		cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
		if err != nil {
			return 0, err
		}
		return cred.Uid, nil
	})
}
