//go:build linux

package probe

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// netTimeout of one connection.
const netTimeout = 2 * time.Second

func network() []Probe {
	const class = "net"
	return []Probe{
		{class, "net-host-loopback", Always, func(t Target) Finding { return dial("tcp", t.TCP) }},
		{class, "net-host-udp", Always, udpEcho},
		{class, "net-abstract-socket", Always, func(t Target) Finding { return dial("unix", "@"+t.Abstract) }},
		{class, "net-path-socket", Always, func(t Target) Finding { return dial("unix", t.Socket) }},
		{class, "net-interfaces", WhereBuilt, interfaces},
		{class, "net-route", WhereBuilt, func(Target) Finding { return dial("udp", "198.51.100.1:53") }},
		{class, "net-metadata", WhereBuilt, func(Target) Finding { return dial("udp", "169.254.169.254:80") }},
		{class, "net-route-ipv6", WhereBuilt, func(Target) Finding { return dial("udp", "[2001:db8::1]:53") }},
		{class, "net-raw", AsRoot, socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)},
		{class, "net-raw-ipv6", AsRoot, socket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6)},
		{class, "net-packet", AsRoot, socket(unix.AF_PACKET, unix.SOCK_RAW, 0)},
		{class, "net-netlink", Always, socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)},
		{class, "net-netlink-audit", Always, socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT)},
		{class, "net-vsock", WhereBuilt, socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)},
		{class, "net-alg", WhereBuilt, socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0)},
		{class, "net-xdp", AsRoot, socket(unix.AF_XDP, unix.SOCK_RAW, 0)},
		{class, "net-bluetooth", WhereBuilt, socket(unix.AF_BLUETOOTH, unix.SOCK_RAW, 1)},
		{class, "net-tipc", WhereBuilt, socket(unix.AF_TIPC, unix.SOCK_STREAM, 0)},
		{class, "net-mptcp", WhereBuilt, socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)},
		{class, "net-low-port", AsRoot, func(Target) Finding {
			l, err := net.Listen("tcp4", "127.0.0.1:1")
			if err == nil {
				_ = l.Close()
			}
			return attempt(err, "port 1 was bound")
		}},
	}
}

func dial(network, address string) Finding {
	c, err := net.DialTimeout(network, address, netTimeout)
	if err != nil {
		return blocked("%v", err)
	}
	_ = c.Close()
	return escaped("connected to %s", address)
}

// udpEcho wants an answer: a datagram to nowhere leaves no trace.
func udpEcho(t Target) Finding {
	c, err := net.DialTimeout("udp", t.UDP, netTimeout)
	if err != nil {
		return blocked("%v", err)
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(netTimeout)); err != nil {
		return untestable(err)
	}
	if _, err := c.Write([]byte("ping")); err != nil {
		return blocked("%v", err)
	}
	_, err = c.Read(make([]byte, 8))
	return attempt(err, "the host answered a datagram")
}

func interfaces(Target) Finding {
	for index := 1; index < 64; index++ {
		name, err := interfaceName(index)
		if err == nil && name != "lo" {
			return escaped("there is an interface %s", name)
		}
	}
	return blocked("there is only lo")
}

// interfaceName asks without netlink.
func interfaceName(index int) (string, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	request, err := unix.NewIfreq("x")
	if err != nil {
		return "", err
	}
	request.SetUint32(uint32(index))
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFNAME, request); err != nil {
		return "", err
	}
	return request.Name(), nil
}

func socket(family, kind, protocol int) func(Target) Finding {
	return func(Target) Finding {
		fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
		return closing(fd, err, "the socket was made")
	}
}
