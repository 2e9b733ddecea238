package plugin

import (
	"encoding/json"
	"time"

	"github.com/nacre-dev/nacre"
)

// HookMemoryBrief is the one hook that a manifest may name (D-20). Memory is nacre's
// own: a plugin that provides the hook is read and left out (D-25).
const HookMemoryBrief = "memory_brief"

// Manifest is a plugin's manifest.json (D-20). A plugin's name is not in it:
// the folder's name is its identity, and whoever installs it chooses that.
type Manifest struct {
	Description string
	Version     string
	// AppCompat is the semver range of nacre versions it works with; empty means any.
	AppCompat string
	Author    Author
	Provides  Provides
	// Subscribes are prefixes of event topics.
	Subscribes []string
	// ConfigSchema is the JSON Schema of the plugin's own configuration; nil means none is taken.
	ConfigSchema json.RawMessage
	// Handler is the program and its arguments, relative to the folder; empty
	// means the executable file named "handler".
	Handler []string
	// MCP names the MCP server that is the handler; the zero value means that it
	// speaks this package's protocol (D-21).
	MCP MCP
	// Hosts are the network hosts the handler needs; the operator confirms them.
	// [AnyHost] among them leaves naming them to the operator.
	Hosts []string
	// Project is what the handler needs of the session's project; the operator
	// confirms it.
	Project Project
	// Listen says that the handler takes connections on the unix socket
	// [ListenSocket] in its data directory, to which the host forwards those of
	// an address that the operator names.
	Listen bool
	// Once says that one handler at a time may serve the channels, as where it has a socket to a
	// chat service. Of the nodes that share a store one serves them then. The handlers of the
	// others get no channel ticket, and carry out tools and hear events all the same.
	Once bool
	// Verify says that the handler answers [MethodVerify] (D-29).
	Verify  bool
	Install Install
}

// AnyHost in a manifest's hosts stands for whatever hosts the operator names.
const AnyHost = "*"

// ListenSocket is the file in the data directory on which a handler with
// "listen" takes connections. The host removes what is left of an older one
// before it starts the handler.
const ListenSocket = "listen.sock"

// MCP is an MCP server that carries out the manifest's tools. What the manifest says of them is
// what counts, and a server that has other tools under these names is refused. At most one of
// Command and URL is set.
type MCP struct {
	// Command starts a server that speaks on its standard streams, relative to
	// the folder.
	Command []string
	// URL is the endpoint of a server that speaks streamable HTTP. Its host is
	// among the manifest's hosts.
	URL string
	// Credential is the key of the credential that goes with each request to
	// URL, as "Authorization: Bearer …"; empty means none.
	Credential string
	// Env are the variables in which the server that Command starts finds
	// credentials, by name: keys of install.credentials. Of those that are not
	// required one that the operator does not give is left out.
	Env map[string]string
}

// Project is what a handler may do with the session's project.
type Project string

// The ways to see a project. With one of the latter two it is bound at
// [ProjectPath]; its .git is read-only always.
const (
	ProjectNone  Project = ""
	ProjectRead  Project = "read"
	ProjectWrite Project = "write"
)

// ProjectPath is where a handler finds the project.
const ProjectPath = "/project"

// Author names who wrote the plugin.
type Author struct {
	Name string
	URL  string
}

// Provides is what a plugin adds to an installation.
type Provides struct {
	Channels []string
	Hooks    []string
	Tools    []ToolSpec
}

// ToolSpec declares one tool. What is left out of a manifest takes the stricter
// reading: no safety class means [nacre.Write] and no label means [nacre.Untrusted].
type ToolSpec struct {
	Name        nacre.ToolName
	Description string
	// HighRisk is risk_level "high": a person is asked before every call (D-13).
	HighRisk bool
	// ArgumentsSchema is the JSON Schema (2020-12) of the arguments.
	ArgumentsSchema json.RawMessage
	Safety          nacre.SafetyClass
	Sensitivity     nacre.Sensitivity
	Rate            nacre.RateLimit
	// Deadline is how long one call may take, from 1 s to 1 h. Zero means the operator's default
	// for all tools, whose word on this one wins too (K-33).
	Deadline time.Duration
	// Returns is the trust of what the tool returns.
	Returns nacre.Label
	// Values are the arguments in which a wrong value does harm, their kinds, free
	// text, and what of the result the system behind the tool makes itself (K-25, K-29).
	nacre.Values
	// Files are the arguments that name files of the project. The handler gets
	// their content: it sees no folder of the agent's (D-13).
	Files []string
	// FileBytes is how much they hold in all. 0 means [MaxFiles], which come with the call;
	// where it is set, the handler reads them with readFile.
	FileBytes int64
}

// Install is what has to be there before the plugin works (D-29).
type Install struct {
	Credentials []Credential
}

// Credential is a secret that the handler may read with readCredential. The
// value itself is never in a manifest.
type Credential struct {
	Key         string
	Description string
	Required    bool
	// ObtainURL is where a person gets one.
	ObtainURL string
	// FormatHint says what it looks like, such as "xoxb-…".
	FormatHint string
}

// Capability is the tool as the kernel authorises it: "<plugin>.<tool>" (D-20).
func (t ToolSpec) Capability(name nacre.PluginName, contentHash string) nacre.Capability {
	return nacre.Capability{
		ID:          nacre.CapabilityID(string(name) + "." + string(t.Name)),
		Tool:        t.Name,
		Name:        string(t.Name),
		Description: t.Description,
		Safety:      t.Safety,
		Sensitivity: t.Sensitivity,
		Schema:      t.ArgumentsSchema,
		Returns:     t.Returns,
		Values:      t.Values,
		Handling: nacre.Handling{Files: t.Files,
			HighRisk: t.HighRisk},
		Rate:        t.Rate,
		Deadline:    t.Deadline,
		ContentHash: contentHash,
	}
}
