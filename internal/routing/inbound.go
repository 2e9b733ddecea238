// Package routing promises the three decisions between an event and an agent, without any effect
// (D-33). They are whether the payload of a message.inbound event is one, which one group a message
// belongs to, and whether an event starts an agent at all. Names are compared by their exact bytes:
// no case, no Unicode form, no look-alike is ever taken for another. It starts nothing, and the
// same input gives the same answer.
package routing

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nacre-dev/nacre/internal/wire"
)

// The limits of a message.inbound payload (D-33). Characters are Unicode code points.
const (
	// MaxChannel is the longest channel, in characters.
	MaxChannel = 64
	// MaxSender is the longest sender, chat or reply_to, in characters.
	MaxSender = 256
	// MaxContentType is the longest content_type, in characters.
	MaxContentType = 128
	// MaxBody is the longest body, in characters.
	MaxBody = 8192
	// MaxMetadata is the largest metadata object as written, in bytes, and
	// MaxMetadataDepth how deep it may nest, itself counted.
	MaxMetadata      = 16 << 10
	MaxMetadataDepth = 8
	// MaxAttachments is how many attachments a message has.
	MaxAttachments = 16
	// MaxSession is the longest session that a sender names, in characters.
	MaxSession = 64
	// MaxRef is the longest ref, in characters.
	MaxRef = 64
	// MaxInbound is the largest payload as written, in bytes: a body of which
	// every character is written as an escape, and the rest.
	MaxInbound = 12*MaxBody + MaxMetadata + 8<<10
)

// The keys of a message.inbound payload and of its metadata.
const (
	keyChannel     = "channel"
	keySender      = "sender"
	keyContentType = "content_type"
	keyBody        = "body"
	keyMetadata    = "metadata"
	keyChat        = "chat"
	keyReplyTo     = "reply_to"
	keyAttachments = "attachments"
	keySession     = "session"
	keyRef         = "ref"
)

// Inbound is what a channel received from the outside: the payload of a
// message.inbound event, every field of it the sender's or the channel's word.
type Inbound struct {
	Channel string
	// Sender is who wrote it, in the channel's own terms.
	Sender      string
	ContentType string
	// Body is empty only where there are attachments.
	Body string
	// Metadata is a JSON object as written, {} where there was none. What follows
	// is read from it; other keys are the channel's own.
	Metadata json.RawMessage
	// Chat is the room it was written in; empty where the channel has none.
	Chat string
	// ReplyTo is the channel's name for the message that it answers; may be empty.
	ReplyTo string
	// Attachments are JSON objects as written.
	Attachments []json.RawMessage
	// Session is the conversation that the sender named; may be empty.
	Session string
	// Ref is the channel's own name for the message, by which it is told what became
	// of it; may be empty.
	Ref string
}

// FieldError says which field of a payload was refused, and why. It never
// repeats what the field held.
type FieldError struct {
	// Field is dotted, such as "metadata.chat"; empty where it is the payload itself.
	Field   string
	Problem string
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return "message.inbound: " + e.Problem
	}
	return "message.inbound: " + e.Field + ": " + e.Problem
}

func refuse(field, format string, values ...any) error {
	return &FieldError{Field: field, Problem: fmt.Sprintf(format, values...)}
}

// ParseInbound reads the payload of a message.inbound event. channel, sender,
// content_type and body must be there, metadata may; any other key is refused.
// Every error is a *[FieldError].
func ParseInbound(payload []byte) (Inbound, error) {
	members, err := wire.Object(payload, wire.Limits{Message: MaxInbound, Depth: 1 + MaxMetadataDepth})
	if err != nil {
		return Inbound{}, refuse("", "%v", err)
	}
	m := Inbound{Metadata: json.RawMessage("{}")}
	for _, member := range members {
		if err := m.set(member); err != nil {
			return Inbound{}, err
		}
	}
	for _, need := range []struct{ field, have string }{
		{keyChannel, m.Channel}, {keySender, m.Sender}, {keyContentType, m.ContentType},
	} {
		if need.have == "" {
			return Inbound{}, refuse(need.field, "missing")
		}
	}
	return m, m.checkBody(members)
}

// checkBody wants a body, which may be empty only beside attachments.
func (m *Inbound) checkBody(members []wire.Member) error {
	for _, member := range members {
		if member.Key == keyBody {
			if m.Body == "" && len(m.Attachments) == 0 {
				return refuse(keyBody, "empty, and nothing is attached")
			}
			return nil
		}
	}
	return refuse(keyBody, "missing")
}

func (m *Inbound) set(member wire.Member) (err error) {
	switch member.Key {
	case keyChannel:
		m.Channel, err = text(member.Key, member.Value, MaxChannel)
		if err == nil && !isChannel(m.Channel) {
			err = refuse(keyChannel, "use 1–%d lower-case letters, digits, _ or -", MaxChannel)
		}
	case keySender:
		m.Sender, err = name(member.Key, member.Value)
	case keyContentType:
		m.ContentType, err = text(member.Key, member.Value, MaxContentType)
		if err == nil && !isContentType(m.ContentType) {
			err = refuse(keyContentType, "use \"text\", or a media type such as image/png")
		}
	case keyBody:
		m.Body, err = text(member.Key, member.Value, MaxBody)
	case keyMetadata:
		err = m.setMetadata(member.Value)
	default:
		err = refuse("", "unknown key %s: use channel, sender, content_type, body and metadata", short(member.Key))
	}
	return err
}

func (m *Inbound) setMetadata(value json.RawMessage) error {
	if value[0] != '{' {
		return refuse(keyMetadata, "not an object")
	}
	members, err := wire.Object(value, wire.Limits{Message: MaxMetadata, Depth: MaxMetadataDepth})
	if err != nil {
		return refuse(keyMetadata, "%v", err)
	}
	m.Metadata = value
	for _, member := range members {
		if err := m.setDetail(member); err != nil {
			return err
		}
	}
	return nil
}

// setDetail reads the keys of metadata that mean the same on every channel.
// null is as if the key were not there.
func (m *Inbound) setDetail(member wire.Member) (err error) {
	if string(member.Value) == "null" {
		return nil
	}
	field := keyMetadata + "." + member.Key
	switch member.Key {
	case keyChat:
		m.Chat, err = name(field, member.Value)
	case keyReplyTo:
		m.ReplyTo, err = name(field, member.Value)
	case keyAttachments:
		m.Attachments, err = attachments(field, member.Value)
	case keySession:
		m.Session, err = text(field, member.Value, MaxSession)
		if err == nil && !isSession(m.Session) {
			err = refuse(field, "use 1–%d lower-case letters, digits or dashes", MaxSession)
		}
	case keyRef:
		m.Ref, err = text(field, member.Value, MaxRef)
		if err == nil && !isSession(m.Ref) {
			err = refuse(field, "use 1–%d lower-case letters, digits or dashes", MaxRef)
		}
	}
	return err
}

// About says whose message it is, to whoever is told what became of it.
func (m Inbound) About() map[string]string {
	return map[string]string{keyChannel: m.Channel, keySender: m.Sender, keyChat: m.Chat, keyRef: m.Ref}
}

func attachments(field string, value json.RawMessage) ([]json.RawMessage, error) {
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil {
		return nil, refuse(field, "not a list")
	}
	if len(list) > MaxAttachments {
		return nil, refuse(field, "%d, at most %d", len(list), MaxAttachments)
	}
	for i, attachment := range list {
		if attachment[0] != '{' {
			return nil, refuse(fmt.Sprintf("%s.%d", field, i), "not an object")
		}
	}
	return list, nil
}

func text(field string, value json.RawMessage, limit int) (string, error) {
	s, ok := wire.Text(value)
	if !ok {
		return "", refuse(field, "not a string")
	}
	if n := utf8.RuneCountInString(s); n > limit {
		return "", refuse(field, "%d characters, at most %d", n, limit)
	}
	return s, nil
}

// name reads what identifies somebody or something on a channel.
func name(field string, value json.RawMessage) (string, error) {
	s, err := text(field, value, MaxSender)
	if err == nil && !isName(s) {
		err = refuse(field, "use 1–%d characters, no control characters", MaxSender)
	}
	return s, err
}

func isName(s string) bool {
	return s != "" && utf8.ValidString(s) && utf8.RuneCountInString(s) <= MaxSender && strings.IndexFunc(s, unicode.IsControl) < 0
}

const (
	lower  = "abcdefghijklmnopqrstuvwxyz"
	digits = "0123456789"
)

func made(s string, limit int, of string) bool {
	return s != "" && len(s) <= limit && strings.Trim(s, of) == ""
}

// isChannel is the form of a manifest's channels.
func isChannel(s string) bool {
	return made(s, MaxChannel, lower+digits+"_-") && s[0] != '_' && s[0] != '-'
}

func isSession(s string) bool { return made(s, MaxSession, lower+digits+"-") }

// isContentType accepts one word, or a media type with its parameters.
func isContentType(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && s[0] != ' '
}

// short shows a key in an error: bounded, and nothing that steers a terminal.
func short(key string) string { return fmt.Sprintf("%.48q", key) }
