package mcpdriver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nacre-dev/nacre"
	mcpdriver "github.com/nacre-dev/nacre/driver/mcp"
)

func Example() {
	server := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{
		Name: "readNote", Description: "Reads a note.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"integer"}}}`),
	}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "milk"}}}, nil
	})
	listener := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	defer listener.Close()

	ctx := context.Background()
	client, err := mcpdriver.Open(ctx, mcpdriver.Server{
		Name: "notes", Endpoint: mcpdriver.Endpoint{URL: listener.URL, Cleartext: true},
		Classes:     map[string]nacre.SafetyClass{"readNote": nacre.Read}, // the operator's word
		Sensitivity: nacre.SensitiveNone,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close() }() // how the session ends changes nothing
	tools, warnings, err := client.Tools(ctx)
	fmt.Println(len(tools), warnings, err)
	for _, tool := range tools { // each goes to kernel.Register
		fmt.Println(tool.Capability.ID, tool.Capability.Safety, string(tool.Capability.Schema))
		result, err := tool.Driver.Do(ctx, nacre.Invocation{Arguments: json.RawMessage(`{"id":7}`)})
		fmt.Println(string(result), err)
	}
	// Output:
	// 1 [notes: tool "readNote": arguments is open; closed to the properties that it names] <nil>
	// notes.read_note READ {"additionalProperties":false,"properties":{"id":{"type":"integer"}},"type":"object"}
	// {"content":[{"type":"text","text":"milk"}]} <nil>
}
