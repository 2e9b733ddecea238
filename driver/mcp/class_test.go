package mcpdriver_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	mcpdriver "github.com/nacre-dev/nacre/driver/mcp"
)

// K-13: the operator's map wins, annotations of trusted servers are next, and
// what nothing classes is DESTRUCTIVE.
func TestClasses(t *testing.T) {
	raw, err := os.ReadFile("testdata/classes.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name        string
		Trusted     bool
		ReadOnly    *bool `json:"read_only"`
		Destructive *bool
		Map         json.RawMessage
		Unannotated string
		Class       string
		Warning     bool
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			s := mcpdriver.Server{Trusted: c.Trusted, Unannotated: c.Unannotated}
			if c.Map != nil {
				if err := json.Unmarshal(c.Map, &s.Classes); err != nil {
					t.Fatal(err)
				}
			}
			tool := &mcp.Tool{Name: "t"}
			if c.ReadOnly != nil || c.Destructive != nil {
				tool.Annotations = &mcp.ToolAnnotations{DestructiveHint: c.Destructive}
				tool.Annotations.ReadOnlyHint = c.ReadOnly != nil && *c.ReadOnly
			}
			class, warning, err := s.Class(tool)
			have := class.String()
			if err != nil {
				have = ""
			}
			if have != c.Class || (warning != "") != c.Warning {
				t.Errorf("have %q, warning %q, %v\nwant %q, %v", have, warning, err, c.Class, c.Warning)
			}
		})
	}
}
