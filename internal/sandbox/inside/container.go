package inside

import (
	"fmt"
)

// Where a container engine mounts what starts its sandboxes.
const (
	// BootDir holds ControlDir and this program.
	BootDir = "/run/nacre-boot"
	// ControlSocket is answered by the host, once.
	ControlSocket = BootDir + "/control/control.sock"
	// Program is this program.
	Program = BootDir + "/" + Name
)

// Container is what PID 1 of an engine's container has to do. The engine has
// made the mounts and namespaces; none of it is believed before it was looked at.
type Container struct {
	Binds    []Bind
	Symlinks []Mount
	Forwards []Forward
	Terminal bool
	// Network says that the socket over which the host asks for sockets of this network
	// follows.
	Network bool
	// Routed says that there are interfaces beside the loopback, and that whoever sends
	// this has seen that they lead nowhere but to the host.
	Routed bool
	Agent  Agent
}

// Bind is a mount that must show the file with Dev and Ino.
type Bind struct {
	Target   string
	Dev, Ino uint64
	ReadOnly bool
}

// EtcFiles are the whole of /etc, apart from what the plan mounts there. In an
// engine's container the agent is a user of the host, and the image has more.
func EtcFiles(uid, gid int) map[string]string {
	agent := fmt.Sprintf("agent:x:%d:%d:agent:/home/agent:/bin/sh\n", uid, gid)
	return map[string]string{
		"passwd": "root:x:0:0:root:/root:/usr/sbin/nologin\n" + agent +
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"group":         fmt.Sprintf("root:x:0:\nagent:x:%d:\nnogroup:x:65534:\n", gid),
		"hosts":         "127.0.0.1 localhost " + HostName + "\n::1 localhost\n",
		"hostname":      HostName + "\n",
		"resolv.conf":   "",
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
	}
}

// The streams that the host opens to a PID 1 that is apart. Those that PID 1 opens are called as
// the socket that they lead to.
const (
	// ControlStream carries the work there, and then what PID 1 reports and is told.
	ControlStream = "control"
	// AgentStream carries what the agent reads, and what it prints as an engine's attached streams
	// carry it.
	AgentStream = "agent"
	// SizeStream carries sizes of a terminal: its rows and its columns, two bytes each.
	SizeStream = "size"
)

// Apart is the work of a container whose kernel is another machine's: everything goes over its
// own input and output.
type Apart struct {
	Work Container
	// SocketDir is where Sockets are offered inside.
	SocketDir string
	Sockets   []string
	// Input says that the agent has any.
	Input bool
}
