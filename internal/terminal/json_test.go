package terminal_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/terminal"
)

// M-05
func TestJSONHoldsNothingThatATerminalActsOn(t *testing.T) {
	want := map[string]string{"text": "\x1b[2J\u009b31m\u202e\u200b\x7f\U000e0041 <ünï 漢>"}
	var out strings.Builder
	if err := terminal.JSON(&out, want); err != nil {
		t.Fatal(err)
	}
	if have := strings.TrimSuffix(out.String(), "\n"); have != `{"text":"\u001b[2J\u009b31m\u202e\u200b\u007f\udb40\udc41 <ünï 漢>"}` {
		t.Errorf("have %s", have)
	}
	var have map[string]string
	if err := json.Unmarshal([]byte(out.String()), &have); err != nil || have["text"] != want["text"] {
		t.Errorf("have %q %v", have, err)
	}
}
