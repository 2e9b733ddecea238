// Package gate promises a decision on one tool call of an agent before it happens: pure, from the
// call's own bytes and what it is told of the project. Shell commands are parsed, never searched by
// pattern (S-05); paths are resolved against the project (S-06). What is malformed, unknown or
// cannot be read is refused with a reason that says what to do instead. A gate explains and refuses
// early, and does not contain a program once it runs. What a script, a build or an interpreter does
// is held by the operating system's layer.
package gate

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nacre-dev/nacre/internal/shell"
)

// Kind says which gate a rule is. The zero value is none, and refuses.
type Kind uint8

// The gates. Each is the handler of the atom that bears its name (S-04).
const (
	Unknown Kind = iota
	NoGitOps
	FilesWhitelist
	FilesDenylist
	NoDepBump
	NoMassDelete
	NoRuleEdits
	DenyTools
	BashAllowlist
	// Patterns is the generic gate: Rule.Forbidden, Rule.Denied and Rule.Tools.
	Patterns
)

var kindNames = [...]string{"", "no-git-ops", "files-whitelist", "files-denylist", "no-dep-bump", "no-mass-delete",
	"no-rule-edits", "deny-tools", "bash-allowlist", "patterns"}

func (k Kind) String() string {
	if int(k) >= len(kindNames) {
		return ""
	}
	return kindNames[k]
}

// KindOf is the gate of a name as String gives it; Unknown where there is none.
func KindOf(name string) Kind {
	for k := NoGitOps; k <= Patterns; k++ {
		if k.String() == name {
			return k
		}
	}
	return Unknown
}

// MaxCommand is the longest command, in bytes.
const MaxCommand = shell.MaxCommand

// DefaultMaxDeletes is how many files one command may delete (S-04).
const DefaultMaxDeletes = 10

// Rule is one gate with its parameters. The zero value refuses everything.
type Rule struct {
	Kind Kind
	// Whitelist holds globs of what may be written; empty allows nothing.
	Whitelist []string
	// Denylist holds globs of what may not be written, nor anything below it.
	Denylist []string
	// Forbidden are patterns (RE2) of commands that may not be called.
	Forbidden []string
	// Commands are patterns of the only commands that may be called.
	Commands []string
	// Denied are tools that may not be called, by name or class.
	Denied []string
	// Tools are the only tools that may be called; empty means no such limit.
	Tools []string
	// AllowDepBump lets manifests and lock files change.
	AllowDepBump bool
	// MaxDeletes is how many files one call may delete; zero means DefaultMaxDeletes.
	MaxDeletes int
}

// World is what a gate is told of the project. Nothing is read by itself.
type World struct {
	// Project is the absolute folder that paths are resolved against.
	Project string
	// Dir is where relative paths begin; empty means Project.
	Dir string
	// Home is the user's home; empty means unknown.
	Home string
	// FoldCase says that the file system takes Name and NAME for one file.
	FoldCase bool
	// Readlink returns where a symbolic link leads, and whether path is one.
	// A path that does not exist is no link. Nil means that there are none.
	Readlink func(path string) (target string, link bool, err error)
	// Count returns how many files are in or at path, of at most limit+1. Nil
	// refuses to delete what is not one file.
	Count func(path string, limit int) (int, error)
}

// Decision is what a gate says. The zero value refuses.
type Decision struct {
	Allowed bool
	// Reason says why not, and what to do instead.
	Reason string
}

func allow() Decision { return Decision{Allowed: true} }

func deny(format string, values ...any) Decision {
	return Decision{Reason: fmt.Sprintf(format, values...)}
}

// Check decides on one call. A gate that a call does not concern allows it.
func (r Rule) Check(c Call, w World) Decision {
	if c.class == classNone {
		return deny("the call was not read")
	}
	if d := c.honest(); !d.Allowed {
		return d
	}
	switch r.Kind {
	case NoGitOps:
		return r.noGit(c, w)
	case FilesWhitelist, FilesDenylist:
		return r.scope(c, w)
	case NoDepBump:
		return r.noDepBump(c, w)
	case NoMassDelete:
		return r.noMassDelete(c, w)
	case NoRuleEdits:
		return r.noRuleEdits(c, w)
	case DenyTools:
		return r.denyTools(c, w)
	case BashAllowlist:
		return r.bashAllowlist(c, w)
	case Patterns:
		return r.patterns(c)
	default:
		return deny("there is no such gate")
	}
}

// read parses the call's command. A call without one is read as nil.
func (c Call) read() (*shell.Script, Decision) {
	if c.class != classShell {
		return nil, allow()
	}
	s, err := c.parse()
	if err != nil && !errors.Is(err, shell.ErrEmpty) {
		return nil, deny("the command cannot be read: %v", err)
	}
	if s == nil {
		return nil, deny("the command is empty")
	}
	if len(s.Odd) > 0 {
		return nil, deny("the command cannot be known before it runs: %s", s.Odd[0])
	}
	return s, allow()
}

func (c Call) parse() (*shell.Script, error) {
	if c.argv != nil {
		return shell.ReadArgv(c.argv)
	}
	return shell.Read(c.command)
}

func (r Rule) noGit(c Call, w World) Decision {
	s, d := c.read()
	if s == nil {
		if !d.Allowed {
			return d
		}
		return noGitTool(c, w)
	}
	if why := checkGit(s); why != "" {
		return deny("git operations are the orchestrator's: %s. Describe the change in your report instead", why)
	}
	return allow()
}

// noGitTool refuses tools that are git, and writes into git's folder.
func noGitTool(c Call, w World) Decision {
	if c.class == classOther {
		for _, part := range strings.FieldsFunc(strings.ToLower(c.Tool), func(r rune) bool { return r == '_' || r == '-' || r == '/' || r == '.' }) {
			switch part {
			case "git", "github", "gitlab", "gitea", "forgejo", "bitbucket", "gh":
				return deny("git operations are the orchestrator's: %s is one. Describe the change in your report instead", c.Tool)
			}
		}
	}
	if c.class != classWrite {
		return allow()
	}
	for _, path := range c.paths {
		places, err := w.locate(path)
		if err != nil {
			return deny("%v", err)
		}
		for _, place := range append(places, path) {
			if inGitDir(place) {
				return deny("git operations are the orchestrator's: %s is git's", path)
			}
		}
	}
	return allow()
}

// denyTools lets reading pass and nothing else (S-04: tools::deny-tools).
func (r Rule) denyTools(c Call, w World) Decision {
	if d := r.deniedByName(c); !d.Allowed {
		return d
	}
	switch c.class {
	case classRead, classNeutral:
		return allow()
	case classShell:
		s, d := c.read()
		if s == nil {
			return d
		}
		return readsOnly(s, w)
	default:
		return deny("this role only reads: %s may change something. Report what should change instead", c.Tool)
	}
}

func (r Rule) deniedByName(c Call) Decision {
	if Permits(r.Denied, c) {
		return deny("the tool %s is denied here", c.Tool)
	}
	if len(r.Tools) > 0 && !Permits(r.Tools, c) {
		return deny("the tool %s is not among the tools of this role (%s)", c.Tool, listed(r.Tools))
	}
	return allow()
}

// patterns is the generic gate of an atom that has no handler of its own.
func (r Rule) patterns(c Call) Decision {
	if d := r.deniedByName(c); !d.Allowed || len(r.Forbidden) == 0 {
		return d
	}
	s, d := c.read()
	if s == nil {
		return d
	}
	for _, call := range s.Calls {
		if pattern, err := matches(r.Forbidden, call); err != nil {
			return deny("%v", err)
		} else if pattern != "" {
			return deny("%q is forbidden (pattern %s)", render(call).text, pattern)
		}
	}
	return allow()
}
