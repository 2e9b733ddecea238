package events

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
)

// Publisher is an outsider that may publish: whoever reaches its listener is it (D-32).
type Publisher struct {
	// Name becomes the source of its events.
	Name string
	// Group becomes the group of its events.
	Group nacre.Group
	// Prefixes of topics that it may publish. message.inbound among them makes it
	// a channel of its own name; no other topic of the core can be.
	Prefixes []string
}

// Check says what is wrong with a publisher.
func (p Publisher) Check() error {
	if err := CheckSource(p.Name); err != nil || IsReserved(p.Name) {
		return fmt.Errorf("publisher %.80q: use 1–64 lower-case letters, digits, _ or -, and no word of the core's", p.Name)
	}
	if _, err := nacre.ParseGroup(string(p.Group)); err != nil {
		return err
	}
	if len(p.Prefixes) == 0 || len(p.Prefixes) > MaxPrefixes {
		return fmt.Errorf("topics: %d prefixes, want 1 to %d", len(p.Prefixes), MaxPrefixes)
	}
	for _, prefix := range p.Prefixes {
		if err := checkGranted(prefix); err != nil {
			return fmt.Errorf("topics: %w", err)
		}
	}
	return nil
}

// checkGranted refuses a prefix that would let an outsider speak for the core.
func checkGranted(prefix string) error {
	if prefix == "" {
		return errors.New("an empty prefix is every topic: name what it may publish, such as \"ci.\"")
	}
	if err := CheckPrefix(prefix); err != nil {
		return err
	}
	first, _, _ := strings.Cut(prefix, ".")
	if IsReserved(first) && prefix != TopicInbound {
		return fmt.Errorf("prefix %s: its topics are the core's own; of them only %s can be granted", prefix, TopicInbound)
	}
	return nil
}

// May reports whether it may publish a topic.
func (p Publisher) May(topic string) bool {
	return slices.ContainsFunc(p.Prefixes, func(prefix string) bool { return HasPrefix(topic, prefix) })
}
