package config

import (
	"fmt"
	"strconv"
	"strings"
)

// DefaultHome is how much agents may leave for their next session, in bytes, for each
// group and project.
const DefaultHome = 4 << 30

// Interactive is what agents' own terminal interfaces are opened with.
type Interactive struct {
	// Agents are programs that `nacre agent NAME` opens, beside Claude Code and Codex.
	Agents map[string]Agent `toml:"agents"`
	Home   Home             `toml:"home"`
}

// Home bounds what agents leave for their next session (U-03).
type Home struct {
	// Quota of one group's home for one project, such as "512MiB" or "4GiB"; empty
	// means 4 GiB.
	Quota string `toml:"quota"`
}

// Bytes is the quota.
func (h Home) Bytes() (int64, error) {
	if h.Quota == "" {
		return DefaultHome, nil
	}
	for unit, shift := range map[string]int{"MiB": 20, "GiB": 30} {
		number, is := strings.CutSuffix(h.Quota, unit)
		if !is {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 32)
		if err == nil && n > 0 && number == strconv.FormatInt(n, 10) {
			return n << shift, nil
		}
	}
	return 0, fmt.Errorf("[home] quota = %.40q: write a size, such as \"512MiB\" or \"4GiB\"", h.Quota)
}
