// Package events promises what events are called, who may publish them, and at which address:
// data that the bus keeps to and the configuration is held against. It carries none.
package events

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
)

// The limits of a topic.
const (
	// MaxTopic is the longest topic or prefix, in bytes.
	MaxTopic = 128
	// MaxParts is how many dotted parts a topic has.
	MaxParts = 8
	// MaxPrefixes is how many prefixes one subscription, or one publisher, has.
	MaxPrefixes = 64
)

// The topics of the core (D-32). Any other topic is of two or more dotted parts,
// the first of which is a plugin's name or what the operator lets a publisher use.
const (
	TopicInbound        = "message.inbound"
	TopicAgentStarted   = "agent.started"
	TopicAgentCompleted = "agent.completed"
	TopicAgentError     = "agent.error"
	TopicTaskCreated    = "task.created"
	TopicTaskTriggered  = "task.triggered"
	TopicPluginReady    = "plugin.ready"
	TopicPluginStopping = "plugin.stopping"
)

// Topics are the core's own, all of them.
func Topics() []string {
	return []string{
		TopicInbound, TopicAgentStarted, TopicAgentCompleted, TopicAgentError,
		TopicTaskCreated, TopicTaskTriggered, TopicPluginReady, TopicPluginStopping,
	}
}

// IsReserved reports whether a topic's first part belongs to the core.
func IsReserved(first string) bool {
	switch first {
	case "message", "agent", "task", "plugin", "tool", "confirmation", "core":
		return true
	}
	return false
}

// CheckSource accepts whose events there can be: the core's, a plugin's or a publisher's.
func CheckSource(source string) error {
	if _, err := nacre.ParsePluginName(source); err != nil {
		return fmt.Errorf("source %.80q: use \"core\", or a plugin's or publisher's name", source)
	}
	return nil
}

// IsTopic reports whether a text can be a topic, whoever publishes it.
func IsTopic(text string) bool {
	parts := strings.Split(text, ".")
	return len(text) <= MaxTopic && len(parts) >= 2 && len(parts) <= MaxParts && !slices.ContainsFunc(parts, func(p string) bool { return !isPart(p) })
}

func isPart(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}

// CheckPrefix accepts what can begin a topic: nothing, whole parts, and a dot
// after the last one.
func CheckPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	parts := strings.Split(strings.TrimSuffix(prefix, "."), ".")
	if len(prefix) > MaxTopic || len(parts) > MaxParts || slices.ContainsFunc(parts, func(p string) bool { return !isPart(p) }) {
		return fmt.Errorf("prefix %.80q: use dotted parts of a topic, such as task. or message.inbound", prefix)
	}
	return nil
}

// HasPrefix reports whether a topic is what a prefix names, or below it. A
// prefix ends where a part of the topic does.
func HasPrefix(topic, prefix string) bool {
	rest, ok := strings.CutPrefix(topic, prefix)
	return ok && (rest == "" || prefix == "" || prefix[len(prefix)-1] == '.' || rest[0] == '.')
}
