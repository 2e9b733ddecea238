package routing_test

import (
	"testing"

	"github.com/nacre-dev/nacre/internal/corpus"
	"github.com/nacre-dev/nacre/internal/redact"
	"github.com/nacre-dev/nacre/internal/routing"
)

func engine(document []byte) ([]byte, []string) {
	out, fields, err := redact.New().JSON(document)
	if err != nil {
		panic(err)
	}
	return out, fields
}

// A message keeps its addresses and loses its secrets.
func TestARedactedMessageIsRoutedAsBefore(t *testing.T) {
	for payload, want := range map[string]string{
		`{"channel":"mail","sender":"ada@example.com","content_type":"text","body":"card 4111111111111111","metadata":{"chat":"+4915112345678","reply_to":"<1@example.com>","session":"work","x":"123-45-6789"}}`://
		`{"channel":"mail","sender":"ada@example.com","content_type":"text","body":"card [REDACTED]","metadata":{"chat":"+4915112345678","reply_to":"<1@example.com>","session":"work","x":"[REDACTED]"}}`,
		`{"body":"hi","sender":"a","channel":"l","content_type":"text"}`://
		`{"channel":"l","sender":"a","content_type":"text","body":"hi","metadata":{}}`,
		`{"body":"123-45-6789"}`: `{"body":"[REDACTED]"}`,
	} {
		if have := string(routing.Redact([]byte(payload), engine)); have != want {
			t.Errorf("have %s\nwant %s", have, want)
		}
	}
}

// What was a message before is the same one after, but for what was taken out.
func FuzzRedact(f *testing.F) {
	corpus.Add(f, []byte(seedMessage))
	corpus.Add(f, []byte(message("metadata", `{"chat":"ada@example.com","session":"s","attachments":[{"a":"123-45-6789"}],"reply_to":"r"}`)))
	f.Fuzz(func(t *testing.T, payload []byte) {
		before, err := routing.ParseInbound(payload)
		if err != nil {
			return
		}
		after, err := routing.ParseInbound(routing.Redact(payload, func(d []byte) ([]byte, []string) { return d, nil }))
		if err != nil {
			t.Fatalf("%s: %v", payload, err)
		}
		if before.Channel != after.Channel || before.Sender != after.Sender || before.Chat != after.Chat || before.Session != after.Session ||
			before.ReplyTo != after.ReplyTo || before.Body != after.Body || len(before.Attachments) != len(after.Attachments) {
			t.Fatalf("have %+v, want %+v", after, before)
		}
	})
}
