package bus

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/events"
	"github.com/nacre-dev/nacre/internal/message"
)

// The topics of the core, which the bus alone lets it publish.
const (
	TopicInbound        = events.TopicInbound
	TopicAgentStarted   = events.TopicAgentStarted
	TopicAgentCompleted = events.TopicAgentCompleted
	TopicAgentError     = events.TopicAgentError
	TopicTaskCreated    = events.TopicTaskCreated
	TopicTaskTriggered  = events.TopicTaskTriggered
	TopicPluginReady    = events.TopicPluginReady
	TopicPluginStopping = events.TopicPluginStopping
)

// checkTopic refuses a topic that nobody, or this source, may publish. Agents,
// tasks and plugins are the core's to speak of; messages come from channels.
func checkTopic(topic, source string) error {
	if err := events.CheckSource(source); err != nil {
		return err
	}
	if !events.IsTopic(topic) {
		return fmt.Errorf("topic %.80q: use 2 to %d dotted parts of lower-case letters, digits, _ or -", topic, events.MaxParts)
	}
	first, _, _ := strings.Cut(topic, ".")
	switch {
	case !events.IsReserved(first):
		if source == message.SourceCore {
			return fmt.Errorf("topic %s: the core's own are %s", topic, strings.Join(events.Topics(), ", "))
		}
		return nil
	case !slices.Contains(events.Topics(), topic):
		return fmt.Errorf("topic %s: those that begin with %q are %s", topic, first+".", strings.Join(below(first), ", "))
	case topic == events.TopicInbound && source == message.SourceCore:
		return fmt.Errorf("topic %s: a message comes from a channel, not from the core", topic)
	case topic != events.TopicInbound && source != message.SourceCore:
		return fmt.Errorf("topic %s is the core's own to publish", topic)
	}
	return nil
}

func below(first string) []string {
	var topics []string
	for _, topic := range events.Topics() {
		if strings.HasPrefix(topic, first+".") {
			topics = append(topics, topic)
		}
	}
	if topics == nil {
		return []string{"never events"}
	}
	return topics
}
