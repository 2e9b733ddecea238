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

// OwnNames are the names under which nacre's own tools and skills are known: no
// plugin may have one.
func OwnNames() []nacre.PluginName {
	return []nacre.PluginName{sourceCore, "nacre", "memory", "schedule"}
}

// intrinsics are the core's own tools (D-30).
func intrinsics() []nacre.ToolName {
	return []nacre.ToolName{"list_tools", "get_diagnostics", "get_session_info", "expand_handle"}
}

// A Collision is why a plugin is left out although nothing is wrong with its own
// folder: it cannot live beside another plugin, or takes what is nacre's own (D-25).
type Collision struct{ text string }

// Error implements error.
func (c *Collision) Error() string { return c.text }

func collision(format string, values ...any) *Collision {
	return &Collision{fmt.Sprintf(format, values...)}
}

// Settle gives each plugin that cannot live beside the others a [Collision] as its Err. Such are
// all that share a tool or a folder of skills, since nobody said which one was meant. Such is each,
// too, that takes a name of nacre's own, or of taken, which has the tools that exist already. The
// others are as they were. A plugin that has an Err already provides nothing, and collides with
// nobody.
func Settle(found []Found, taken map[nacre.ToolName]string) []Found {
	settled := slices.Clone(found)
	tools, skills := map[nacre.ToolName][]int{}, map[string][]int{}
	for i, f := range found {
		if f.Err != nil {
			continue
		}
		skills[skillName(string(f.Name))] = append(skills[skillName(string(f.Name))], i)
		for _, t := range f.Manifest.Provides.Tools {
			tools[t.Name] = append(tools[t.Name], i)
		}
	}
	for i := range settled {
		f := &settled[i]
		if f.Err != nil {
			continue
		}
		if c := takesOwn(*f, taken); c != nil {
			f.Err = c
		} else if c := meets(found, i, tools, skills); c != nil {
			f.Err = c
		}
	}
	return settled
}

// takesOwn is a plugin's collision with nacre itself. Memory is nacre's own, since what a plugin
// says of trust and of labels is not to be believed. An agent may learn only what a person can look
// at and erase with nacre memory (D-43 to D-45).
func takesOwn(f Found, taken map[nacre.ToolName]string) *Collision {
	if slices.Contains(f.Manifest.Provides.Hooks, plugin.HookMemoryBrief) {
		return collision("memory is nacre's own: no plugin takes its place with the hook %s", plugin.HookMemoryBrief)
	}
	if slices.Contains(OwnNames(), f.Name) {
		return collision("the name %s is nacre's own: rename the folder", f.Name)
	}
	for _, t := range f.Manifest.Provides.Tools {
		owner, exists := taken[t.Name]
		switch {
		case slices.Contains(intrinsics(), t.Name):
			return collision("the tool %s belongs to the core, which reserves the name: rename the tool", t.Name)
		case exists:
			return collision("the tool %s is %s: rename the tool", t.Name, owner)
		}
	}
	return nil
}

// meets is a plugin's collision with another plugin.
func meets(found []Found, i int, tools map[nacre.ToolName][]int, skills map[string][]int) *Collision {
	f := found[i]
	for _, t := range f.Manifest.Provides.Tools {
		for _, other := range tools[t.Name] {
			if other != i {
				return collision("the tool %s belongs to plugin %s too (%s), and both are left out: remove or rename one", t.Name, found[other].Name, found[other].Dir)
			}
		}
	}
	for _, other := range skills[skillName(string(f.Name))] {
		if other != i {
			return collision("plugin %s (%s) would share the skill folder %s, and both are left out: rename one", found[other].Name, found[other].Dir, skillName(string(f.Name)))
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
