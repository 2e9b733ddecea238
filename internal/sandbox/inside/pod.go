package inside

// PodProgram starts sandboxes in pods of a Kubernetes cluster: a program of its own.
const PodProgram = "nacre-k8s"

// What the program is asked for: its first argument.
const (
	// PodDescribe reads [PodSettings] from standard input and prints a [PodDescription], or fails
	// with a line that says why no sandbox could start.
	PodDescribe = "describe"
	// PodStart receives an [PodOrder] on [ControlFD] and answers with [Report]s.
	PodStart = "start"
)

// The descriptors that the program inherits with [PodStart] after ControlFD.
const (
	PodStdinFD = ControlFD + 1 + iota
	PodStdoutFD
	PodStderrFD
)

// PodSettings are the operator's, from [sandbox.k8s] of config.toml.
type PodSettings struct {
	// Kubeconfig is a file; empty means where kubectl looks, or the pod that nacre runs in.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// Context of it; empty means its current one.
	Context string `json:"context,omitempty"`
	// Namespace and Pool name the warm pool that sandboxes are claimed from.
	Namespace string `json:"namespace"`
	Pool      string `json:"pool"`
	// Listen is the address, and the ports, that pods dial: "0.0.0.0:30100-30199".
	Listen string `json:"listen"`
	// Address is how pods reach this machine; empty means the address of Listen.
	Address string `json:"address,omitempty"`
	// Runtime is the runtime class that the pool's pods must have; empty means any.
	Runtime string `json:"runtime,omitempty"`
}

// PodDescription is what the program says of the sandboxes that it would start.
type PodDescription struct {
	// Runtime is the class of their runtime; empty for the cluster's own.
	Runtime string `json:"runtime,omitempty"`
	// Holds names in a line what holds a sandbox.
	Holds string `json:"holds"`
	// NotEnforced lists in words what a posture may ask for and does not get.
	NotEnforced []string `json:"not_enforced"`
}

// PodKind says what an entry of an order puts into the sandbox.
type PodKind string

// The kinds of entries.
const (
	// PodCopy takes a file or folder there.
	PodCopy PodKind = "copy"
	// PodFolder is an empty one.
	PodFolder PodKind = "folder"
	// PodHidden is empty, whatever an earlier entry has put there.
	PodHidden PodKind = "hidden"
	// PodLink is a symbolic link.
	PodLink PodKind = "link"
)

// PodEntry is one path inside. Entries are made in their order, and later ones stand in the
// place of what earlier ones put there.
type PodEntry struct {
	Kind   PodKind `json:"kind"`
	Target string  `json:"target"`
	// Source is a path of this machine without symbolic links, and must be the file with Dev and
	// Ino. Of a link it is its text.
	Source string `json:"source,omitempty"`
	Dev    uint64 `json:"dev,omitempty"`
	Ino    uint64 `json:"ino,omitempty"`
	Dir    bool   `json:"dir,omitempty"`
	// Returns says that what the agent leaves there comes back to Source.
	Returns bool `json:"returns,omitempty"`
}

// PodOrder is all that the program needs to know to start one sandbox.
type PodOrder struct {
	Settings PodSettings `json:"settings"`
	// Label names the session, and Owner who asked, for whoever looks at the cluster.
	Label string `json:"label"`
	Owner string `json:"owner"`
	// Sockets is the folder of the session's sockets, which are offered inside at
	// nacre.SocketDir; empty for none.
	Sockets string     `json:"sockets,omitempty"`
	Entries []PodEntry `json:"entries"`
	// Disk is how many bytes what returns may have grown by.
	Disk int64 `json:"disk"`
	// Work is what PID 1 of the sandbox does.
	Work Container `json:"work"`
}
