package access

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/intrinsic"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/policy"
)

// idleTools tells of patterns under [groups.NAME] tools that no tool has the name
// of: a misspelt one lets nobody use the tool that was meant. Where a plugin cannot
// be read, nobody knows what its tools would have been.
func idleTools(inst *installation.Installation, found []pluginhost.Found) []string {
	own, err := intrinsic.Names()
	if err != nil {
		return []string{err.Error()}
	}
	plugins := map[string]bool{}
	tools := own
	for _, f := range found {
		if f.Err != nil {
			return nil
		}
		plugins[string(f.Name)] = true
		for _, t := range f.Manifest.Provides.Tools {
			tools = append(tools, t.Name)
		}
	}
	var texts []string
	for _, group := range slices.Sorted(maps.Keys(inst.Config.Groups)) {
		for _, pattern := range inst.Config.Groups[group].Tools {
			one := policy.Groups{"one": {Tools: []string{pattern}}}
			if slices.ContainsFunc(tools, func(t nacre.ToolName) bool { return one.Allows("one", nacre.Capability{Tool: t}) }) {
				continue
			}
			text := fmt.Sprintf("[groups.%s] tools: %q is the name of no tool, so it lets nobody use anything", group, pattern)
			if name, _, dotted := strings.Cut(pattern, "."); dotted && plugins[name] {
				text += fmt.Sprintf("; patterns are over the names of tools: nacre plugin show %s lists them", name)
			}
			texts = append(texts, text)
		}
	}
	return texts
}

// ownTaken are the names of nacre's own tools, with whose they are.
func ownTaken() (map[nacre.ToolName]string, error) {
	own, err := intrinsic.Names()
	taken := map[nacre.ToolName]string{}
	for _, name := range own {
		taken[name] = "nacre's own"
	}
	return taken, err
}
