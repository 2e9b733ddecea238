package assembly

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/policy"
)

// OwnTools are the names of the tools that nacre itself brings: no plugin's tool
// can have one (D-25).
func (r *Runtime) OwnTools() ([]nacre.ToolName, error) {
	own, err := (&sealed{runtime: r, memory: &memory.Store{}}).ownTools() // to be named, not called
	var names []nacre.ToolName
	for _, tool := range own {
		names = append(names, tool.Capability.Tool)
	}
	return names, err
}

// idleTools tells of patterns under [groups.NAME] tools that no tool has the name
// of: a misspelt one lets nobody use the tool that was meant. Where a plugin cannot
// be read, nobody knows what its tools would have been.
func (r *Runtime) idleTools(found []pluginhost.Found) []string {
	own, err := r.OwnTools()
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
	for _, group := range slices.Sorted(maps.Keys(r.config.Groups)) {
		for _, pattern := range r.config.Groups[group].Tools {
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

// checkPublishers holds the outside publishers against the plugins that are there.
func (r *Runtime) checkPublishers() error {
	found, err := r.plugins()
	if err != nil {
		return err
	}
	return r.takenPublishers(found)
}

// takenPublishers refuses an outside publisher that has the name of a plugin, or may
// publish its topics: what it says could be taken for what the plugin says (D-32).
func (r *Runtime) takenPublishers(found []pluginhost.Found) error {
	for _, f := range found {
		if _, twice := r.config.Events.Publishers[string(f.Name)]; twice {
			return badConfig("[events.publishers.%s]: %s is a plugin (%s), and its events could not be told from those of the publisher: give the publisher another name", f.Name, f.Name, f.Dir)
		}
		for _, name := range slices.Sorted(maps.Keys(r.config.Events.Publishers)) {
			for _, topic := range r.config.Events.Publishers[name].Topics {
				if first, _, _ := strings.Cut(topic, "."); first == string(f.Name) {
					return badConfig("[events.publishers.%s] topics: %q are the topics of plugin %s (%s), whose subscribers would take the publisher's events for the plugin's: name others, such as %q", name, topic, f.Name, f.Dir, name+".")
				}
			}
		}
	}
	return nil
}
