package kernel_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/grant"
	"github.com/nacre-dev/nacre/kernel"
	"github.com/nacre-dev/nacre/policy"
)

// All of it in thirty lines: a policy, a grant, a narrower one for a
// sub-agent, a frame, a handle to the rest of it, and what was recorded.
func Example() {
	ctx, key, chain := context.Background(), make([]byte, 32), audit.Memory(1000)
	_, _ = rand.Read(key) // never fails
	k, err := kernel.New(kernel.Config{
		Policy: policy.Shipped(), Groups: policy.Groups{"office": {Tools: []string{"invoice_*"}}},
		Recorder: chain, Now: time.Now, Random: rand.Reader, TokenKey: key,
	})
	check(err)
	check(k.Register(nacre.Tool{
		Capability: nacre.Capability{
			ID: "billing.invoice_list", Tool: "invoice_list", Safety: nacre.Read, Sensitivity: nacre.SensitiveNone,
			Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"status":{"type":"string"}}}`),
		},
		Driver: nacre.DriverFunc(listInvoices),
	}))
	agent := nacre.Principal{ID: "office/agent", Group: "office", Session: "s1"}
	whole, err := k.Grant(ctx, kernel.GrantRequest{Capability: "billing.invoice_list"}, agent, "Which invoices are open?")
	check(err)
	rows := 3
	narrower, err := grant.Derive(whole, nacre.Caveat{Principal: "office/agent/helper", Constraints: nacre.Constraints{MaxRows: &rows}})
	check(err)
	in := kernel.Input{Arguments: json.RawMessage(`{"status":"open"}`), Mode: nacre.ModeHandleOnly, Caller: "office/agent/helper"}
	frame, err := k.Invoke(ctx, narrower, agent, in)
	check(err)
	agent.ID = in.Caller
	page, err := k.Expand(ctx, frame.Handle.ID, nacre.Query{Fields: []string{"id", "api_key"}}, agent)
	check(err)
	fmt.Printf("%d rows are granted: %s\n", frame.Handle.Rows, page.Rows)
	for _, record := range chain.Records() {
		fmt.Println(record.Kind, record.Outcome)
	}
	// Output:
	// 3 rows are granted: [{"id":0,"api_key":"[REDACTED]"} {"id":1,"api_key":"[REDACTED]"} {"id":2,"api_key":"[REDACTED]"}]
	// grant allowed
	// call.begin allowed
	// call.end routed
	// handle.expand sanitized
}

func listInvoices(context.Context, nacre.Invocation) (json.RawMessage, error) {
	return invoices(100), nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
