package config

import (
	"errors"
	"fmt"

	"github.com/nacre-dev/nacre"
)

// DefaultOutputTokens is how much of results one session may see, in tokens of four
// characters: a result of a MiB can be read whole, and some more.
const DefaultOutputTokens = 500_000

// Results is how much of one result an agent is shown at once (K-31). A field that is
// zero says nothing.
type Results struct {
	Rows   int `toml:"rows"`
	Fields int `toml:"fields"`
	Chars  int `toml:"chars"`
	Depth  int `toml:"depth"`
}

// DefaultResults are for agents, which read more at once than the 4,000 characters that
// the kernel begins with.
func DefaultResults() nacre.ResultLimits {
	return nacre.ResultLimits{Rows: 200, Fields: 100, Chars: 96 << 10, Depth: 10}
}

// ResultLimits is how much of one result of a tool a group's sessions are shown.
func (c Config) ResultLimits(group nacre.Group, tool nacre.ToolName) nacre.ResultLimits {
	limits := nacre.ResultLimits(c.Tools[string(tool)].Results).Over(nacre.ResultLimits(c.Groups[string(group)].Results))
	return limits.Over(nacre.ResultLimits(c.Results)).Over(DefaultResults())
}

func (c Config) checkResults() error {
	if err := c.Results.check("[results]"); err != nil {
		return err
	}
	for name, g := range c.Groups {
		if err := errors.Join(g.Results.check("[groups."+name+".results]"), g.Rates.check("[groups."+name+".rates]")); err != nil {
			return err
		}
	}
	for name, t := range c.Tools {
		if err := t.Results.check("[tools." + name + ".results]"); err != nil {
			return err
		}
	}
	return nil
}

func (r Results) check(where string) error {
	most := nacre.MaxResultLimits()
	for _, one := range []struct {
		key         string
		value, most int
	}{{"rows", r.Rows, most.Rows}, {"fields", r.Fields, most.Fields}, {"chars", r.Chars, most.Chars}, {"depth", r.Depth, most.Depth}} {
		if one.value < 0 || one.value > one.most {
			return fmt.Errorf("%s %s = %d: use 1 to %d", where, one.key, one.value, one.most)
		}
	}
	return nil
}
