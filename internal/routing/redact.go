package routing

import (
	"encoding/json"

	"github.com/nacre-dev/nacre/internal/wire"
)

// Redact takes the secrets out of a message.inbound payload that ParseInbound
// accepts, and keeps whose it is: channel, sender, chat, reply_to, session
// and ref are addresses. A mail address is personal data in a body, but without it as
// the sender no route matches, nobody can be answered, and the conversations of
// all senders are one. A payload that is no message is redacted as a whole.
func Redact(payload []byte, redact func(document []byte) ([]byte, []string)) json.RawMessage {
	m, err := ParseInbound(payload)
	if err != nil {
		whole, _ := redact(payload)
		return whole
	}
	members, err := wire.Object(m.Metadata, wire.Limits{Message: MaxMetadata, Depth: MaxMetadataDepth})
	if err != nil {
		members = nil // it was accepted above
	}
	var addresses, others []wire.Member
	for _, member := range members {
		switch member.Key {
		case keyChat, keyReplyTo, keySession, keyRef:
			addresses = append(addresses, member)
		default:
			others = append(others, member)
		}
	}
	body, _ := redact(objectOf([]wire.Member{{Key: keyBody, Value: wire.AppendText(nil, m.Body)}}))
	rest, _ := redact(objectOf(others))
	metadata := objectOf(append(addresses, membersOf(rest)...))
	return objectOf(append([]wire.Member{
		{Key: keyChannel, Value: wire.AppendText(nil, m.Channel)},
		{Key: keySender, Value: wire.AppendText(nil, m.Sender)},
		{Key: keyContentType, Value: wire.AppendText(nil, m.ContentType)},
	}, append(membersOf(body), wire.Member{Key: keyMetadata, Value: metadata})...))
}

// membersOf reads back what was redacted; what is no object any more is nothing.
func membersOf(document []byte) []wire.Member {
	members, err := wire.Object(document, wire.Limits{CaseSensitive: true})
	if err != nil {
		return nil
	}
	return members
}

func objectOf(members []wire.Member) []byte {
	dst := []byte{'{'}
	for i, member := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(wire.AppendText(dst, member.Key), ':')
		dst = append(dst, member.Value...)
	}
	return append(dst, '}')
}
