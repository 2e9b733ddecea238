package kernel_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/kernel"
	"github.com/nacre-dev/nacre/policy"
)

// printed is a recorder for a terminal; a real one is durable.
type printed struct{}

func (printed) Append(_ context.Context, r nacre.Record) error {
	fmt.Println(r.Kind, r.Outcome)
	return nil
}

func (p printed) Commit(ctx context.Context, r nacre.Record) error { return p.Append(ctx, r) }

func Example() {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	k, err := kernel.New(kernel.Config{
		Policy:   policy.Shipped(),
		Groups:   policy.Groups{"family": {Tools: []string{"note_*"}}},
		Recorder: printed{}, Now: time.Now, Random: rand.Reader, TokenKey: key,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = k.Register(nacre.Tool{
		Capability: nacre.Capability{
			ID: "notes.note_read", Tool: "note_read", Safety: nacre.Read, Sensitivity: nacre.SensitiveNone,
			Schema: json.RawMessage(`{"type":"object","required":["id"],"additionalProperties":false,"properties":{"id":{"type":"integer"}}}`),
		},
		Driver: nacre.DriverFunc(func(context.Context, nacre.Invocation) (json.RawMessage, error) {
			return json.RawMessage(`{"text":"milk","api_key":"abcdef0123456789"}`), nil
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	agent := nacre.Principal{ID: "family/s1", Group: "family", Session: "s1"}
	for _, arguments := range []string{`{"id":7}`, `{"id":"seven"}`} {
		outcome, err := k.Call(context.Background(), nacre.Call{Principal: agent, Tool: "note_read", Arguments: json.RawMessage(arguments)})
		fmt.Println(string(outcome.Result), err)
	}
	// Output:
	// call.begin allowed
	// call.end sanitized
	// {"text":"milk","api_key":"[REDACTED]"} <nil>
	// call.reject rejected
	//  VALIDATION_FAILED: id: got string, want integer
}
