package workcmd

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/nacre-dev/nacre/internal/config"
)

// reachFlags are the flags that say what a session may reach.
func reachFlags(flags *pflag.FlagSet, to *[]string) {
	flags.Var(&reach{to, func(host string) []string { return []string{host} }}, "egress", "HOST:PORT that may be reached; may be repeated")
	flags.Var(&reach{to, func(names string) []string { return config.BundleNames(strings.Split(names, ",")) }}, "allow",
		"bundles of hosts that may be reached, such as go,npm; see nacre egress bundles")
}

// reach adds what one flag names to what may be reached.
type reach struct {
	to   *[]string
	read func(string) []string
}

// String implements pflag.Value.
func (r *reach) String() string { return "" }

// Type implements pflag.Value.
func (r *reach) Type() string { return "stringArray" }

// Set implements pflag.Value.
func (r *reach) Set(text string) error {
	*r.to = append(*r.to, r.read(text)...)
	return nil
}
