package access

import (
	"maps"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/pluginhost"
)

// CheckPublishers holds the outside publishers against the plugins that are there.
func CheckPublishers(inst *installation.Installation) error {
	found, err := Plugins(inst)
	if err != nil {
		return err
	}
	return TakenPublishers(inst, found)
}

// TakenPublishers refuses an outside publisher that has the name of a plugin, or may
// publish its topics: what it says could be taken for what the plugin says (D-32).
func TakenPublishers(inst *installation.Installation, found []pluginhost.Found) error {
	for _, f := range found {
		if _, twice := inst.Config.Events.Publishers[string(f.Name)]; twice {
			return config.Errorf("[events.publishers.%s]: %s is a plugin (%s), and its events could not be told from those of the publisher: give the publisher another name", f.Name, f.Name, f.Dir)
		}
		for _, name := range slices.Sorted(maps.Keys(inst.Config.Events.Publishers)) {
			for _, topic := range inst.Config.Events.Publishers[name].Topics {
				if first, _, _ := strings.Cut(topic, "."); first == string(f.Name) {
					return config.Errorf("[events.publishers.%s] topics: %q are the topics of plugin %s (%s), whose subscribers would take the publisher's events for the plugin's: name others, such as %q", name, topic, f.Name, f.Dir, name+".")
				}
			}
		}
	}
	return nil
}
