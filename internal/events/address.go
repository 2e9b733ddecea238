package events

import (
	"fmt"
	"net/netip"
	"strings"
)

// IPC is the address of a unix socket in the runtime folder.
const IPC = "ipc"

// Address is where a ZeroMQ endpoint is. The zero value is a unix socket in the
// runtime folder, which is open to this user alone.
type Address struct {
	// TCP is valid where the endpoint is an address of the network.
	TCP netip.AddrPort
}

// ParseAddress reads "ipc" or "tcp://IP:PORT"; empty means ipc. An address that
// other machines can reach is refused unless open: whoever reaches a publisher's
// endpoint is that publisher, and whoever reaches the other reads every event.
func ParseAddress(text string, open bool) (Address, error) {
	if text == "" || text == IPC {
		if open {
			return Address{}, fmt.Errorf("open = true is for a tcp address that is not of this machine alone")
		}
		return Address{}, nil
	}
	rest, ok := strings.CutPrefix(text, "tcp://")
	at, err := netip.ParseAddrPort(rest)
	if !ok || err != nil || at.Port() == 0 || at.Addr().Zone() != "" {
		return Address{}, fmt.Errorf("address %.80q: write ipc, or tcp://IP:PORT such as tcp://127.0.0.1:5556", text)
	}
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	if !at.Addr().IsLoopback() && !open {
		return Address{}, fmt.Errorf("address %s: others than this machine reach it: use 127.0.0.1, or say that you know with open = true", text)
	}
	return Address{TCP: at}, nil
}

// String is the address as it is written in the config.
func (a Address) String() string {
	if !a.TCP.IsValid() {
		return IPC
	}
	return "tcp://" + a.TCP.String()
}
