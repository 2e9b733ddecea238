package bus

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/message"
	"github.com/nacre-dev/nacre/internal/routing"
)

// The limits of a topic.
const (
	// MaxTopic is the longest topic or prefix, in bytes.
	MaxTopic = 128
	// maxTopicParts is how many dotted parts a topic has.
	maxTopicParts = 8
)

// The topics of the core (D-32). Any other topic is of two or more dotted parts,
// the first of which is a plugin's name or what the operator lets a publisher use.
const (
	TopicInbound        = routing.TopicInbound
	TopicAgentStarted   = "agent.started"
	TopicAgentCompleted = "agent.completed"
	TopicAgentError     = "agent.error"
	TopicTaskCreated    = "task.created"
	TopicTaskTriggered  = routing.TopicTriggered
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

// isReserved reports whether a topic's first part belongs to the core.
func isReserved(first string) bool {
	switch first {
	case "message", "agent", "task", "plugin", "tool", "confirmation", "core":
		return true
	}
	return false
}

// checkTopic refuses a topic that nobody, or this source, may publish. Agents,
// tasks and plugins are the core's to speak of; messages come from channels.
func checkTopic(topic, source string) error {
	if err := checkSource(source); err != nil {
		return err
	}
	parts := strings.Split(topic, ".")
	if len(topic) > MaxTopic || len(parts) < 2 || len(parts) > maxTopicParts || slices.ContainsFunc(parts, func(p string) bool { return !isPart(p) }) {
		return fmt.Errorf("topic %.80q: use 2 to %d dotted parts of lower-case letters, digits, _ or -", topic, maxTopicParts)
	}
	switch {
	case !isReserved(parts[0]):
		if source == message.SourceCore {
			return fmt.Errorf("topic %s: the core's own are %s", topic, strings.Join(Topics(), ", "))
		}
		return nil
	case !slices.Contains(Topics(), topic):
		return fmt.Errorf("topic %s: those that begin with %q are %s", topic, parts[0]+".", strings.Join(below(parts[0]), ", "))
	case topic == TopicInbound && source == message.SourceCore:
		return fmt.Errorf("topic %s: a message comes from a channel, not from the core", topic)
	case topic != TopicInbound && source != message.SourceCore:
		return fmt.Errorf("topic %s is the core's own to publish", topic)
	}
	return nil
}

func below(first string) []string {
	var topics []string
	for _, topic := range Topics() {
		if strings.HasPrefix(topic, first+".") {
			topics = append(topics, topic)
		}
	}
	if topics == nil {
		return []string{"never events"}
	}
	return topics
}

func checkSource(source string) error {
	if _, err := nacre.ParsePluginName(source); err != nil {
		return fmt.Errorf("source %.80q: use %q, or a plugin's or publisher's name", source, message.SourceCore)
	}
	return nil
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
	if len(prefix) > MaxTopic || len(parts) > maxTopicParts || slices.ContainsFunc(parts, func(p string) bool { return !isPart(p) }) {
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
