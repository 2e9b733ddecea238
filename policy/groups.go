package policy

import (
	"fmt"

	"github.com/nacre-dev/nacre"
)

// GroupTools is what one group may use.
type GroupTools struct {
	// Tools are globs over tool names; none allows intrinsics only.
	Tools []string `toml:"tools" json:"tools"`
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
		for _, pattern := range tools.Tools {
			if _, err := parseGlob(pattern); err != nil {
				return fmt.Errorf("group %s: tools: %w", group, err)
			}
		}
	}
	return nil
}

// Allows reports whether a group may use a capability.
func (g Groups) Allows(group nacre.Group, c nacre.Capability) bool {
	if c.Intrinsic {
		return true
	}
	for _, pattern := range g[group].Tools {
		if glob(pattern).matches(string(c.Tool)) {
			return true
		}
	}
	return false
}
