package pluginhost

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

// sourceCore is who the core is in records and envelopes; no plugin may be called so.
const sourceCore = "core"

// intrinsics are the core's own tools (D-30).
func intrinsics() []nacre.ToolName {
	return []nacre.ToolName{"list_tools", "get_diagnostics", "get_session_info", "expand_handle"}
}

// collisions finds what no order of starting could make right (D-25).
func collisions(found []Found, taken map[nacre.ToolName]string) error {
	owner := map[nacre.ToolName]string{}
	for name, who := range taken {
		owner[name] = who
	}
	for _, name := range intrinsics() {
		owner[name] = "the core, which reserves the name"
	}
	skills := map[string]string{}
	hook := ""
	for _, f := range found {
		who := fmt.Sprintf("plugin %s (%s)", f.Name, f.Dir)
		if f.Name == sourceCore {
			return fmt.Errorf("%s: no plugin may be called %s: rename its folder", who, sourceCore)
		}
		for _, t := range f.Manifest.Provides.Tools {
			if other, ok := owner[t.Name]; ok {
				return fmt.Errorf("tool %s belongs to %s and to %s: remove or rename one", t.Name, other, who)
			}
			owner[t.Name] = who
		}
		if other, ok := skills[skillName(string(f.Name))]; ok {
			return fmt.Errorf("%s and %s would share the skill folder %s: rename one", other, who, skillName(string(f.Name)))
		}
		skills[skillName(string(f.Name))] = who
		if slices.Contains(f.Manifest.Provides.Hooks, plugin.HookMemoryBrief) {
			if hook != "" {
				return fmt.Errorf("%s and %s both provide the hook %s: remove one", hook, who, plugin.HookMemoryBrief)
			}
			hook = who
		}
	}
	return nil
}

// subscribes reports whether topic lies under a prefix, at a dot.
func subscribes(prefix, topic string) bool {
	prefix = strings.TrimSuffix(prefix, ".")
	rest, ok := strings.CutPrefix(topic, prefix)
	return ok && (rest == "" || rest[0] == '.')
}
