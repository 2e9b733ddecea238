package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
)

// personalKinds are the kinds of personal data.
var personalKinds = [...]string{"email", "phone", "iban", "card", "id"}

// GroupTools is what one group may use.
type GroupTools struct {
	// Tools are globs over tool names; none allows intrinsics only.
	Tools []string `toml:"tools" json:"tools"`
	// PII are the kinds of personal data that the group's sessions see as they are, of email,
	// phone, iban, card and id. Of others they see references, with a hint of the value for
	// KIND:hint (K-27). PIIOf are further ones in what one tool returns.
	PII   []string                    `toml:"pii" json:"pii,omitempty"`
	PIIOf map[nacre.ToolName][]string `toml:"-" json:"pii_of,omitempty"`
	// Public are globs of the tools whose results whoever writes to the group may be told
	// without a question (M-50b).
	Public []string `toml:"public" json:"public,omitempty"`
	// Exactly are tools that no pattern names, and that the group may call with these
	// arguments alone (U-40).
	Exactly []ExactTool `toml:"-" json:"exactly,omitempty"`
}

// ExactTool is a tool with the arguments that it may be called with.
type ExactTool struct {
	Tool nacre.ToolName `json:"tool"`
	// Arguments are SHA-256, in lower-case hexadecimal, of arguments as a caller wrote
	// them: the "arguments" of their records.
	Arguments []string `json:"arguments"`
}

// Groups says which tools each group may use, as in `[groups.NAME] tools`
// (D-12). A group that is absent may use the core's intrinsics only, and so may
// every group of the zero value.
type Groups map[nacre.Group]GroupTools

// Check refuses malformed names of groups and patterns.
func (g Groups) Check() error {
	for group, tools := range g {
		if _, err := nacre.ParseGroup(string(group)); err != nil {
			return err
		}
		for key, patterns := range map[string][]string{"tools": tools.Tools, "public": tools.Public} {
			for _, pattern := range patterns {
				if _, err := parseGlob(pattern); err != nil {
					return fmt.Errorf("group %s: %s: %w", group, key, err)
				}
			}
		}
		for _, kinds := range slices.Concat([][]string{tools.PII}, slices.Collect(maps.Values(tools.PIIOf))) {
			if err := CheckPII(kinds); err != nil {
				return fmt.Errorf("group %s: %w", group, err)
			}
		}
	}
	return nil
}

// CheckPII refuses what is neither a kind of personal data nor KIND:hint.
func CheckPII(kinds []string) error {
	for _, kind := range kinds {
		if !slices.Contains(personalKinds[:], strings.TrimSuffix(kind, hintSuffix)) {
			return fmt.Errorf("pii: %.40q: use %s, or one of them with %s", kind, strings.Join(personalKinds[:], ", "), hintSuffix)
		}
	}
	return nil
}

// hintSuffix marks a kind of which a hint is shown.
const hintSuffix = ":hint"

// Sight is how a session sees personal data of a kind.
type Sight uint8

// Sights; the zero value shows nothing.
const (
	Hidden Sight = iota
	Hinted
	InClear
)

// Sees tells how a group's sessions see personal data of a kind in what a tool returns.
func (g Groups) Sees(group nacre.Group, tool nacre.ToolName, kind string) Sight {
	has := func(kind string) bool {
		return slices.Contains(g[group].PII, kind) || slices.Contains(g[group].PIIOf[tool], kind)
	}
	switch {
	case has(kind):
		return InClear
	case has(kind + hintSuffix):
		return Hinted
	}
	return Hidden
}

// Allows reports whether a group may use a capability, with some arguments at least.
func (g Groups) Allows(group nacre.Group, c nacre.Capability) bool {
	return g.allowsAll(group, c) || slices.ContainsFunc(g[group].Exactly, func(e ExactTool) bool { return e.Tool == c.Tool })
}

// AllowsCall reports whether a group may use a capability with the arguments as a caller wrote
// them; nil for those that nobody knows.
func (g Groups) AllowsCall(group nacre.Group, c nacre.Capability, written []byte) bool {
	if g.allowsAll(group, c) {
		return true
	}
	if len(written) == 0 || !g.Allows(group, c) {
		return false
	}
	sum := sha256.Sum256(written)
	digest := hex.EncodeToString(sum[:])
	return slices.ContainsFunc(g[group].Exactly, func(e ExactTool) bool { return e.Tool == c.Tool && slices.Contains(e.Arguments, digest) })
}

func (g Groups) allowsAll(group nacre.Group, c nacre.Capability) bool {
	return c.Intrinsic || anyMatches(g[group].Tools, c.Tool)
}

// Public reports whether a group's outsiders may be told what a tool returns.
func (g Groups) Public(group nacre.Group, tool nacre.ToolName) bool {
	return anyMatches(g[group].Public, tool)
}

func anyMatches(patterns []string, tool nacre.ToolName) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return glob(pattern).matches(string(tool)) })
}
