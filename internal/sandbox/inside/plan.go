// Package inside is what runs inside a native sandbox before the agent does (M-12). PID 1 builds
// the root file system from nothing, forwards loopback ports and reaps. The last stage, before the
// agent's execve, gives up every power. It promises that the agent starts only when each step held.
// It does not decide what a sandbox may reach: the [Plan] says it.
package inside

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// maxFrame is the largest message on the control socket, in bytes.
const maxFrame = 8 << 20

// The inherited descriptors of PID 1, besides its streams. What comes with the plan
// comes over the control socket.
const (
	ControlFD = 3
	SelfFD    = 4
)

// AgentUID is the agent's user and group in its own namespace.
const AgentUID = 1000

// HostName is what the sandbox calls itself.
const HostName = "nacre"

// Plan is all that PID 1 needs to know. It comes from the host and is trusted.
type Plan struct {
	Mounts   []Mount
	Devices  bool // pseudo terminals
	Forwards []Forward
	// Network counts, from one, the socket among the descriptors after the streams over which the
	// host asks for sockets of this network. Zero is none.
	Network int
	// InnerUID is the user of the first namespace that the agent is.
	InnerUID int
	// KeepOverride leaves PID 1 the right to reach sockets that it does not own.
	KeepOverride bool
	Agent        Agent
}

// Confined follows the plan, when PID 1 is where its limits hold: the agent may start.
type Confined struct {
	// Data is the limit of each process's memory, where no group limits their sum.
	Data uint64
}

// Agent is what the last stage applies to itself.
type Agent struct {
	Argv, Env []string
	Dir       string
	Limits    Limits
	// Contained says that an engine took all capabilities, and that there is
	// none left to take them with.
	Contained bool
	// NoStop keeps the agent from stopping any process, where the kernel would
	// let it stop PID 1.
	NoStop bool
	// Landlock is the version of the kernel's interface; zero leaves it out.
	Landlock int
	// Writable are the paths below which Landlock lets the agent write.
	Writable []string
}

// Limits per process; zero leaves one as it is.
type Limits struct {
	Processes, OpenFiles, FileSize, Data uint64
}

// Kind of a mount inside.
type Kind uint8

// The kinds of mount. Tree is a bind.
const (
	Tree Kind = iota
	Tmpfs
	Mask
	Symlink
)

// Mount is one step of building the root file system.
type Mount struct {
	Kind   Kind
	Target string
	// FD counts, from one, the mount trees that the host prepared and sends along. Zero means that
	// Source is opened here and must be the file with Dev and Ino.
	FD       int
	Source   string
	Dev, Ino uint64
	Dir      bool
	ReadOnly bool
	NoExec   bool
	Optional bool
	Size     int64
	Mode     uint32
	// Overlay puts a private writable layer over a Tree: Layer, another Tree, or Size
	// bytes of memory where that is nil.
	Overlay bool
	Layer   *Mount
}

// Forward leads a loopback port to a socket's path inside.
type Forward struct {
	Port uint16
	Path string
	// Both listens by IPv6 too, where there is any.
	Both bool
}

// Report is what PID 1 tells the host: that the agent runs, why it does not,
// or how it ended.
type Report struct {
	Started bool   `json:",omitempty"`
	Error   string `json:",omitempty"`
	// Exec is set when Error is the answer of the agent's execve, and Errno its number.
	Exec   bool `json:",omitempty"`
	Errno  int  `json:",omitempty"`
	Ended  bool `json:",omitempty"`
	Code   int  `json:",omitempty"`
	Signal int  `json:",omitempty"`
}

// Send writes v as one frame.
func Send(w io.Writer, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(body) > maxFrame {
		return fmt.Errorf("plan of %d bytes: the limit is %d", len(body), maxFrame)
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body)))
	_, err = w.Write(append(frame, body...))
	return err
}

// Receive reads one frame into v.
func Receive(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxFrame {
		return fmt.Errorf("message of %d bytes: the limit is %d", size, maxFrame)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	return json.Unmarshal(body, v)
}

// Name is argv[0] of a process that must run [Main].
const Name = "sandbox-init"

// The first argument says which part of the work the process does.
const (
	ModeInit  = "init"  // PID 1
	ModeCheck = "check" // try what a sandbox needs, and say what failed

	ModeContain = "contain" // PID 1 of a container engine's container
	ModeApart   = "apart"   // the same, where no socket of the host's can be had
)
