package toolformat_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/toolformat"
)

func ExampleDispatcher() {
	format, err := toolformat.New(toolformat.Anthropic, []nacre.Capability{{
		ID: "notes.read", Tool: "note_read", Description: "Reads a note.", Safety: nacre.Read, Sensitivity: nacre.SensitiveNone,
		Schema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"integer"}},"additionalProperties":false}`),
	}}, toolformat.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	definitions, err := format.Definitions() // goes into the request, as "tools"
	fmt.Println(string(definitions), err)

	dispatcher := toolformat.Dispatcher{
		Format:    format,
		Caller:    example{}, // a *kernel.Kernel
		Principal: nacre.Principal{ID: "family/s1", Group: "family", Session: "s1"},
		NewID:     func() (string, error) { return "call-1", nil },
	}
	response := `{"content":[{"type":"text","text":"Let me look."},{"type":"tool_use","id":"toolu_1","name":"notes__read","input":{"id":7}}]}`
	messages, err := dispatcher.Dispatch(context.Background(), []byte(response))
	for _, message := range messages { // go into the next request, as the content of one user message
		fmt.Println(string(message), err)
	}
	// Output:
	// [{"description":"Reads a note. [safety=READ]","input_schema":{"type":"object","properties":{"id":{"type":"integer"}},"additionalProperties":false},"name":"notes__read"}] <nil>
	// {"content":[{"text":"{\"capability_id\":\"notes.read\",\"handle\":null,\"label\":\"untrusted\",\"result\":{\"text\":\"milk\"}}","type":"text"}],"tool_use_id":"toolu_1","type":"tool_result"} <nil>
}

type example struct{}

func (example) Call(context.Context, nacre.Call) (nacre.Outcome, error) {
	return nacre.Outcome{Result: json.RawMessage(`{"text":"milk"}`)}, nil
}
