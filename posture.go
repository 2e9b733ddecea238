package nacre

import (
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Posture is all that a session may reach, computed once by a pure function
// (M-10). What is not in it does not exist inside.
type Posture struct {
	// Mounts in the order they are made; later ones cover earlier ones.
	Mounts []Mount `json:"mounts"`
	// Dir is the working directory inside.
	Dir string `json:"dir"`
	// Env is the whole environment inside, as KEY=value. Never a secret's value.
	Env []string `json:"env"`
	// Forwards are loopback ports inside that lead to sockets in SocketDir.
	Forwards []Forward    `json:"forwards,omitempty"`
	Egress   []EgressRule `json:"egress,omitempty"`
	// Credentials are what the session may use of the operator's, each where it may go.
	Credentials []CredentialScope `json:"credentials,omitempty"`
	Limits      Limits            `json:"limits"`
}

// CredentialScope is what a session may use of one credential (M-34, M-35). The value is
// not in it. The zero value may be used for nothing.
type CredentialScope struct {
	Name string `json:"name"`
	// Host and Port are the only place that the credential is sent to, with these methods,
	// below these paths. All are empty where Inside is set.
	Host    string   `json:"host,omitempty"`
	Port    uint16   `json:"port,omitempty"`
	Methods []string `json:"methods,omitempty"`
	Paths   []string `json:"paths,omitempty"`
	// Login is whom a key of SSH logs in as there; empty for what is sent with requests.
	Login string `json:"login,omitempty"`
	// Minted says who mints one for the session and for what; empty for a static one.
	Minted string `json:"minted,omitempty"`
	// Inside is the variable or the file in which the agent itself is given the value: it
	// may then send it wherever it may connect to.
	Inside string `json:"inside,omitempty"`
}

// String says what the credential is for, for a person.
func (c CredentialScope) String() string {
	if c.Inside != "" {
		return c.Name + " inside, as " + c.Inside
	}
	if c.Login != "" {
		return c.Name + " for SSH to " + c.Login + "@" + c.Host + ":" + strconv.Itoa(int(c.Port))
	}
	text := c.Name + " for " + c.Host + ":" + strconv.Itoa(int(c.Port)) + " " + strings.Join(c.Methods, ",") + " " + strings.Join(c.Paths, ",")
	if c.Minted != "" {
		text += ", minted by " + c.Minted
	}
	return text
}

// MountKind says what is mounted. The zero value binds read-only.
type MountKind uint8

// The kinds of mount.
const (
	BindReadOnly MountKind = iota
	BindReadWrite
	Tmpfs
	// Mask hides what is at Target behind an empty read-only file or directory.
	Mask
	// SymlinkTo makes Target a symbolic link whose text is Source.
	SymlinkTo
	// Overlay shows Source with a private, writable layer over it that ends with the
	// sandbox, or is kept in Layer.
	Overlay
)

var mountNames = [...]string{"ro", "rw", "tmpfs", "mask", "symlink", "overlay"}

func (k MountKind) String() string { return enumName(mountNames[:], uint8(k), "ro") }

// MarshalText implements encoding.TextMarshaler.
func (k MountKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText accepts the names that String gives.
func (k *MountKind) UnmarshalText(text []byte) error {
	i, err := enumIndex("mount kind", mountNames[:], string(text))
	*k = MountKind(i)
	return err
}

// Mount makes one path visible inside.
type Mount struct {
	Kind   MountKind `json:"kind"`
	Source string    `json:"source,omitempty"`
	Target string    `json:"target"`
	// Layer keeps the layer of an Overlay: a folder of the host with two empty ones in
	// it on one file system, LayerUpper, which gets what is written, and LayerWork.
	// Empty means that the layer is in memory.
	Layer string `json:"layer,omitempty"`
	// Size of a tmpfs in bytes; zero means 64 MiB.
	Size int64 `json:"size,omitempty"`
	// Optional mounts are left out where Source does not exist.
	Optional bool `json:"optional,omitempty"`
	// NoExec refuses to run programs from the mount.
	NoExec bool `json:"noexec,omitempty"`
}

// What is in the folder that keeps an Overlay's layer.
const (
	LayerUpper = "upper"
	LayerWork  = "work"
)

// SocketDir is where a session's sockets are inside every sandbox (D-01).
const SocketDir = "/run/nacre"

// The names of the sockets in SocketDir.
const (
	DoorSocket   = "door.sock"
	ModelSocket  = "model.sock"
	EgressSocket = "egress.sock"
	// GateSocket hears of each call that the gates of a task refuse, before its agent
	// does (M-65). It is there where a task has gates.
	GateSocket = "gate.sock"
	// SSHSocket is an ssh-agent for the logins of the session (M-36). It is there where its
	// group has a key of SSH.
	SSHSocket = "ssh.sock"
)

// The loopback ports inside that lead to the host's egress proxy and model gateway.
const (
	EgressPort = 3128
	ModelPort  = 3129
)

// Forward leads a loopback TCP port inside to a socket in SocketDir.
type Forward struct {
	Port   uint16 `json:"port"`
	Socket string `json:"socket"`
	// Both says that it is there by IPv6 as well, where the sandbox has it.
	Both bool `json:"both,omitempty"`
}

// Protocol is what may be spoken to an allowed host. The zero value is TLS
// with a matching server name (M-21).
type Protocol uint8

// The protocols of an egress rule.
const (
	ProtocolTLS Protocol = iota
	ProtocolHTTP
	ProtocolTCP
)

var protocolNames = [...]string{"tls", "http", "tcp"}

func (p Protocol) String() string { return enumName(protocolNames[:], uint8(p), "tls") }

// MarshalText implements encoding.TextMarshaler.
func (p Protocol) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText accepts exactly "tls", "http" or "tcp".
func (p *Protocol) UnmarshalText(text []byte) error {
	i, err := enumIndex("protocol", protocolNames[:], string(text))
	*p = Protocol(i)
	return err
}

// EgressRule allows one host and port (M-20).
type EgressRule struct {
	// Host is a lower-case DNS name, or "*.example.com" where that was confirmed.
	Host     string   `json:"host"`
	Port     uint16   `json:"port"`
	Protocol Protocol `json:"protocol"`
	// Pin, when valid, is dialled instead of what Host resolves to. Only the
	// operator's own config may set it (M-21).
	Pin netip.AddrPort `json:"pin,omitzero"`
}

func (r EgressRule) String() string {
	s := r.Host + ":" + strconv.Itoa(int(r.Port))
	if r.Protocol != ProtocolTLS {
		s += "/" + r.Protocol.String()
	}
	return s
}

// Limits of a sandbox. Zero means the documented default, never "none".
type Limits struct {
	// Wall is how long it may run; default 1 h.
	Wall time.Duration `json:"wall"`
	// Processes at once; default 512.
	Processes int `json:"processes"`
	// OpenFiles per process; default 4096.
	OpenFiles int `json:"open_files"`
	// Memory in bytes for the whole sandbox where the machine can enforce it; default 4 GiB.
	Memory int64 `json:"memory"`
	// FileSize is the largest file that can be written; default 2 GiB.
	FileSize int64 `json:"file_size"`
	// Output is how many bytes stdout and stderr may carry together; default 256 MiB.
	Output int64 `json:"output"`
	// CPU in thousandths of a core for the whole sandbox where the machine can
	// enforce it; default 4000.
	CPU int `json:"cpu"`
	// Disk is how many bytes what is bound writable may grow by; default 10 GiB.
	// It is monitored, not enforced: it may be exceeded for as long as a look takes.
	Disk int64 `json:"disk"`
}

// WithDefaults fills in what is zero.
func (l Limits) WithDefaults() Limits {
	if l.Wall == 0 {
		l.Wall = time.Hour
	}
	if l.Processes == 0 {
		l.Processes = 512
	}
	if l.OpenFiles == 0 {
		l.OpenFiles = 4096
	}
	if l.Memory == 0 {
		l.Memory = 4 << 30
	}
	if l.FileSize == 0 {
		l.FileSize = 2 << 30
	}
	if l.Output == 0 {
		l.Output = 256 << 20
	}
	if l.CPU == 0 {
		l.CPU = 4000
	}
	if l.Disk == 0 {
		l.Disk = 10 << 30
	}
	return l
}
