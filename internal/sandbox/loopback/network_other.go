//go:build !linux

package loopback

import (
	"net"
	"os"
)

// Network reaches ports of a sandbox whose kernel is this machine's: there is none.
type Network struct{}

// New refuses.
func New() (*Network, error) { return nil, ErrNone }

// Close implements [io.Closer].
func (*Network) Close() error { return nil }

// HandOver refuses.
func (*Network) HandOver() (*os.File, error) { return nil, ErrNone }

// Dial refuses.
func (*Network) Dial(uint16) (*net.TCPConn, error) { return nil, ErrNone }

// Listening refuses.
func (*Network) Listening() ([]uint16, error) { return nil, ErrNone }
