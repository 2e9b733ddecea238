package learned

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/posture"
)

// Tool is a tool that a group's sessions may call beside those of its list. The policy
// decides on each call, as on every other.
type Tool struct {
	Group nacre.Group    `toml:"group" json:"group"`
	Tool  nacre.ToolName `toml:"tool" json:"tool"`
	// Arguments are SHA-256, in hexadecimal, of the arguments that it may be called with, as
	// a caller writes them. Any lets all through; one of the two is set.
	Arguments []string `toml:"arguments,omitempty" json:"arguments,omitempty"`
	Any       bool     `toml:"any,omitempty" json:"any,omitempty"`
}

func (t Tool) check() error {
	if _, err := nacre.ParseGroup(string(t.Group)); err != nil {
		return err
	}
	if _, err := nacre.ParseToolName(string(t.Tool)); err != nil {
		return err
	}
	if t.Any == (len(t.Arguments) > 0) || len(t.Arguments) > maxArguments {
		return fmt.Errorf("tool %s: name the arguments that it may be called with, at most %d, or write any = true", t.Tool, maxArguments)
	}
	for _, digest := range t.Arguments {
		if sum, err := hex.DecodeString(digest); err != nil || len(sum) != 32 || hex.EncodeToString(sum) != digest {
			return fmt.Errorf("tool %s: %.80q is not a SHA-256 in lower-case hexadecimal", t.Tool, digest)
		}
	}
	return nil
}

// Use is an [egress.Use].
type Use struct {
	Group      nacre.Group `toml:"group" json:"group"`
	Credential string      `toml:"credential" json:"credential"`
	Host       string      `toml:"host" json:"host"`
	Methods    []string    `toml:"methods" json:"methods"`
	Paths      []string    `toml:"paths" json:"paths"`
}

// check refuses a use of a credential that could not have been learned.
func (u Use) check() error {
	if _, err := nacre.ParseGroup(string(u.Group)); err != nil {
		return err
	}
	rule, err := posture.ParseEgress(u.Host)
	switch {
	case err != nil:
		return err
	case u.Credential == "" || len(u.Methods) == 0 || posture.Inside(rule.Host):
		return fmt.Errorf("a use of a credential names it, a host that does not lead inside, and methods: %q at %q", u.Credential, u.Host)
	}
	_, _, err = Host{Host: u.Host, Methods: u.Methods, Paths: u.Paths}.credential(u.Credential)
	return err
}

// ToolsAt are the tools that groups may call at a moment.
func (a Approvals) ToolsAt(now time.Time) (tools []Tool) {
	for _, l := range a.standing(now) {
		tools = append(tools, l.Tools...)
	}
	return tools
}
