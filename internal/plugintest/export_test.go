package plugintest

import (
	"encoding/json"

	"github.com/nacre-dev/nacre/plugin"
)

// Samples are the arguments that a tool with this schema is called with.
func Samples(schema json.RawMessage) []string {
	var all []string
	for _, s := range samples(plugin.ToolSpec{ArgumentsSchema: schema}) {
		all = append(all, string(s.arguments))
	}
	return all
}
