package policy_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/policy"
)

// U-40: a tool that a group may call with some arguments is called with no others, and never
// with arguments that nobody knows.
func TestAToolIsCalledWithExactlyTheArgumentsThatWereApproved(t *testing.T) {
	t.Parallel()
	const seen, other = `{"to":"ada"}`, `{"to":"eve"}`
	sum := sha256.Sum256([]byte(seen))
	groups := policy.Groups{"main": {Tools: []string{"list_*"}, Exactly: []policy.ExactTool{{Tool: "post", Arguments: []string{hex.EncodeToString(sum[:]), ""}}}}}
	for _, c := range []struct {
		name, tool, group, written string
		known, allowed             bool
	}{
		{"the arguments that were seen", "post", "main", seen, true, true},
		{"others", "post", "main", other, true, false},
		{"none that anybody knows", "post", "main", "", true, false},
		{"of another group", "post", "second", seen, false, false},
		{"another tool", "pay", "main", seen, false, false},
		{"a tool of the list", "list_all", "main", other, true, true},
	} {
		capability := nacre.Capability{Tool: nacre.ToolName(c.tool)}
		if known, allowed := groups.Allows(nacre.Group(c.group), capability), groups.AllowsCall(nacre.Group(c.group), capability, []byte(c.written)); known != c.known || allowed != c.allowed {
			t.Errorf("%s: known %v, allowed %v", c.name, known, allowed)
		}
	}
}
