// Package posture computes what a session may reach. One pure function takes
// what the operator asked for and what this machine has, and returns the whole
// of it: mounts, environment, egress, limits. The launcher starts nothing
// that did not come from here (M-10).
package posture

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre"
)

// The fixed places inside every sandbox. BinDir is in no folder of [Input.System]:
// those are bound as they are, and nothing can be added to them.
const (
	Home      = "/home/agent"
	Workspace = "/workspace"
	BinDir    = "/opt/nacre/bin"
	// BuildCache is where a toolchain's build cache is.
	BuildCache = "/var/cache/go-build"
	tmpSize    = 1 << 30
	homeSize   = 512 << 20
	cacheSize  = 2 << 30
)

// LateExecution are the files at a project's top that make the host run code
// later. Those that are there are read-only inside; those that appear are
// reported (M-13).
func LateExecution() []string {
	return []string{
		".git", ".gitmodules", ".gitattributes", ".githooks", ".husky", ".pre-commit-config.yaml", "lefthook.yml",
		".vscode", ".idea", ".zed", ".devcontainer", ".exrc", ".vimrc", ".nvim.lua", ".dir-locals.el",
		".claude", ".codex", ".cursor", ".gemini", ".mcp.json", ".envrc", ".direnv", "mise.toml", ".mise.toml",
		".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".gdbinit", ".nacre",
	}
}

// Input is what a posture is computed from. Nothing in it comes from a project.
type Input struct {
	// Project is bound at Workspace; empty means an empty scratch folder there.
	Project string
	// Base, where set, is a folder whose files are shown at Workspace, and stay as
	// they are: Project is then the folder of the layer that gets what is written.
	Base string
	// ReadOnlyProject makes all of the project read-only.
	ReadOnlyProject bool
	// Protected are paths below the project, relative to it, that are read-only inside.
	Protected []string
	// System are the machine's read-only tool folders.
	System []nacre.Mount
	// Toolchains are language toolchains and module caches outside of System.
	Toolchains []Toolchain
	// Programs are bound into BinDir under their names: ipc, brain.
	Programs map[string]string
	// Extra mounts and variables, such as a brain's own program. A mount stands in the
	// place of a toolchain's at the same target.
	Mounts []nacre.Mount
	Env    []string
	Egress []nacre.EgressRule
	// Credentials are those of the group; the posture has those that Egress leads to, and
	// those that are delivered inside.
	Credentials []nacre.CredentialScope
	// Offline leaves out the way to the egress proxy and the door: what verifies
	// code reaches nothing.
	Offline bool
	// Model says that a model gateway answers on nacre.ModelPort.
	Model bool
	// Forwards are further loopback ports that lead to sockets of the session.
	Forwards []nacre.Forward
	Limits   nacre.Limits
}

// Toolchain is a language's tools on this machine.
type Toolchain struct {
	Name   string
	Mounts []nacre.Mount
	Env    []string
	Path   []string // folders inside that hold its programs
	// BuildCache is a host-warmed cache that runs get a private layer over.
	BuildCache string
	Fetching   Fetching
}

// Compute returns the posture, or says which part of the input is not allowed.
func Compute(in Input) (nacre.Posture, error) {
	if err := checkEgress(in.Egress); err != nil {
		return nacre.Posture{}, err
	}
	p := nacre.Posture{Dir: Workspace, Egress: in.Egress, Credentials: credentials(in), Limits: in.Limits.WithDefaults()}
	p.Mounts = append(p.Mounts, in.System...)
	p.Mounts = append(p.Mounts,
		nacre.Mount{Kind: nacre.Tmpfs, Target: "/tmp", Size: tmpSize},
		nacre.Mount{Kind: nacre.Tmpfs, Target: Home, Size: homeSize})
	for _, name := range slices.Sorted(maps.Keys(in.Programs)) {
		p.Mounts = append(p.Mounts, nacre.Mount{Source: in.Programs[name], Target: path.Join(BinDir, name)})
	}
	for _, t := range in.Toolchains {
		p.Mounts = append(append(p.Mounts, t.Mounts...), besides(in.Mounts, t.caches(in))...)
	}
	project, err := projectMounts(in)
	if err != nil {
		return nacre.Posture{}, err
	}
	// What is protected comes last: no mount below the project, as a role has them, opens it again.
	p.Mounts = slices.Concat(p.Mounts, project[:1], in.Mounts, project[1:])
	p.Forwards = forwards(in)
	p.Env = environment(in)
	return p, nil
}

// caches are what the host has fetched and built for a toolchain.
func (t Toolchain) caches(in Input) []nacre.Mount {
	mounts := t.Fetching.mounts(in)
	if t.BuildCache != "" {
		mounts = append(slices.Clip(mounts), nacre.Mount{Kind: nacre.Overlay, Source: t.BuildCache, Target: BuildCache, Size: cacheSize})
	}
	return mounts
}

// besides are those mounts in whose place no other one stands.
func besides(others, mounts []nacre.Mount) []nacre.Mount {
	return slices.DeleteFunc(slices.Clone(mounts), func(m nacre.Mount) bool {
		return slices.ContainsFunc(others, func(o nacre.Mount) bool { return o.Target == m.Target })
	})
}

func projectMounts(in Input) ([]nacre.Mount, error) {
	if in.Project == "" {
		return []nacre.Mount{{Kind: nacre.Tmpfs, Target: Workspace, Size: homeSize}}, nil
	}
	kind := nacre.BindReadWrite
	if in.ReadOnlyProject {
		kind = nacre.BindReadOnly
	}
	mounts := []nacre.Mount{{Kind: kind, Source: in.Project, Target: Workspace}}
	if in.Base != "" {
		if in.ReadOnlyProject {
			return nil, errors.New("a layer over a base is there to be written")
		}
		mounts[0] = nacre.Mount{Kind: nacre.Overlay, Source: in.Base, Layer: in.Project, Target: Workspace}
	}
	for _, rel := range in.Protected {
		clean := path.Clean("/" + rel)[1:]
		if clean == "" || clean != rel {
			return nil, fmt.Errorf("protected path %q is not a plain path below the project", rel)
		}
		mounts = append(mounts, nacre.Mount{
			Source: path.Join(in.Project, clean), Target: path.Join(Workspace, clean), Optional: true,
		})
	}
	return mounts, nil
}

// credentials are those that can be used: without a way to its host there is no scope.
func credentials(in Input) []nacre.CredentialScope {
	if in.Offline {
		return nil
	}
	var used []nacre.CredentialScope
	for _, c := range in.Credentials {
		if c.Inside != "" || slices.ContainsFunc(in.Egress, func(r nacre.EgressRule) bool { return LeadsTo(r, whereOf(c)) }) {
			used = append(used, c)
		}
	}
	return used
}

// whereOf is the place that a credential is for: SSH is carried as it is, all else in TLS.
func whereOf(c nacre.CredentialScope) nacre.EgressRule {
	to := nacre.EgressRule{Host: c.Host, Port: c.Port}
	if c.Login != "" {
		to.Protocol = nacre.ProtocolTCP
	}
	return to
}

// LeadsTo reports whether a rule lets a session speak a protocol to a host.
func LeadsTo(r, to nacre.EgressRule) bool {
	_, parent, _ := strings.Cut(to.Host, ".")
	return r.Port == to.Port && r.Protocol == to.Protocol && (r.Host == to.Host || r.Host == "*."+parent)
}

func forwards(in Input) []nacre.Forward {
	if in.Offline {
		return nil
	}
	list := []nacre.Forward{{Port: nacre.EgressPort, Socket: nacre.EgressSocket}}
	if in.Model {
		list = append(list, nacre.Forward{Port: nacre.ModelPort, Socket: nacre.ModelSocket})
	}
	return append(list, in.Forwards...)
}

// environment is built from nothing: no variable of the host gets in.
func environment(in Input) []string {
	proxy := "http://127.0.0.1:" + strconv.Itoa(nacre.EgressPort)
	search := []string{BinDir, "/usr/local/bin"}
	var env []string
	for _, t := range in.Toolchains {
		search = append(search, t.Path...)
		env = append(append(env, t.Env...), t.Fetching.environment(in)...)
		if t.BuildCache != "" {
			env = append(env, "GOCACHE="+BuildCache)
		}
	}
	search = append(search, "/usr/bin", "/bin", "/usr/sbin", "/sbin")
	search = append(search, installed()...)
	env = append(env,
		"HOME="+Home, "USER=agent", "LOGNAME=agent", "SHELL=/bin/sh", "TMPDIR=/tmp", "LANG=C.UTF-8",
		"PATH="+strings.Join(search, ":"), "GIT_TERMINAL_PROMPT=0", "NACRE=1",
		"PYTHONDONTWRITEBYTECODE=1") // compiled code beside the sources would be landed, or named each time
	if !in.Offline {
		env = append(env,
			"HTTP_PROXY="+proxy, "HTTPS_PROXY="+proxy, "http_proxy="+proxy, "https_proxy="+proxy,
			"NO_PROXY=127.0.0.1,localhost,::1", "no_proxy=127.0.0.1,localhost,::1", "NODE_USE_ENV_PROXY=1",
			"NPM_CONFIG_UPDATE_NOTIFIER=false") // npm test would ask for the registry, on nobody's behalf
	}
	return once(append(env, in.Env...))
}

// once keeps of each variable the value that was set last: which of two counts, programs read
// differently.
func once(env []string) []string {
	at := map[string]int{}
	kept := env[:0]
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if i, has := at[name]; has {
			kept[i] = kv
			continue
		}
		at[name] = len(kept)
		kept = append(kept, kv)
	}
	return kept
}

// installed are the folders where language tools put programs for their user. They come
// last: what a session installs stands in for no program of the host's.
func installed() []string {
	return []string{Home + "/.local/bin", Home + "/go/bin", Home + "/.cargo/bin"}
}

func checkEgress(rules []nacre.EgressRule) error {
	for _, r := range rules {
		if r.Port == 0 || r.Host == "" {
			return fmt.Errorf("egress rule %q: name a host and a port", r)
		}
		if r.Pin.IsValid() && r.Pin.Port() == 0 {
			return fmt.Errorf("egress rule %q: a pin is ADDRESS:PORT", r)
		}
	}
	return nil
}

// ParseEgress reads HOST:PORT or HOST (port 443), with an optional /tls, /http
// or /tcp. Wildcards and IP addresses are refused: they are confirmed in the
// config, never given in passing (M-20).
func ParseEgress(s string) (nacre.EgressRule, error) {
	rule := nacre.EgressRule{Port: 443}
	rest, protocol, named := strings.Cut(s, "/")
	if named {
		if err := rule.Protocol.UnmarshalText([]byte(protocol)); err != nil {
			return nacre.EgressRule{}, fmt.Errorf("egress %q: %w", s, err)
		}
	}
	host, port, hasPort := strings.Cut(rest, ":")
	if hasPort {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return nacre.EgressRule{}, fmt.Errorf("egress %q: the port is a number from 1 to 65535", s)
		}
		rule.Port = uint16(n)
	}
	rule.Host = strings.ToLower(host)
	if err := checkHost(rule.Host); err != nil {
		return nacre.EgressRule{}, fmt.Errorf("egress %q: %w", s, err)
	}
	return rule, nil
}

func checkHost(host string) error {
	if host == "" || len(host) > 253 {
		return errors.New("write HOST:PORT, such as proxy.example.com:443")
	}
	if strings.Contains(host, "*") {
		return errors.New("wildcards are refused here: name the host")
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return errors.New("addresses are refused: name a host, and pin it in the config")
	}
	numeric := true
	for _, label := range strings.Split(host, ".") {
		if err := checkHostLabel(label); err != nil {
			return err
		}
		numeric = strings.IndexFunc(label, func(r rune) bool { return r < '0' || r > '9' }) < 0
	}
	if numeric {
		return errors.New("a name whose last part is a number is an address in disguise")
	}
	return nil
}

func checkHostLabel(label string) error {
	if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
		return fmt.Errorf("%q is not a part of a host name", label)
	}
	for _, r := range label {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' {
			return fmt.Errorf("%q is not a part of a host name: write international names in punycode", label)
		}
	}
	return nil
}

// RuleTexts are egress rules as records and people read them, with their pins.
func RuleTexts(rules []nacre.EgressRule) []string {
	texts := make([]string, 0, len(rules))
	for _, rule := range rules {
		text := rule.String()
		if rule.Pin.IsValid() {
			text += " pinned to " + rule.Pin.String()
		}
		texts = append(texts, text)
	}
	return texts
}
