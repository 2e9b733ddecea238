package provenance_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/provenance"
)

// K-26: what the brain read, as the gateway sees it.
func TestTheResultsInAModelRequestAreRead(t *testing.T) {
	const anthropic = `{"model":"m","system":"system@example.com","messages":[
		{"role":"user","content":"user@example.com"},
		{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"Bash","input":{"command":"input@example.com"}}]},
		{"role":"user","content":[%s,{"type":"text","text":"text@example.com"}]}]}`
	for name, c := range map[string]struct{ body string }{
		"Anthropic, text":          {fmt.Sprintf(anthropic, `{"type":"tool_result","tool_use_id":"a","content":"from bob@example.com"}`)},
		"Anthropic, blocks":        {fmt.Sprintf(anthropic, `{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"from bo\u0062@example.com"}]}`)},
		"Anthropic, a document":    {fmt.Sprintf(anthropic, `{"type":"tool_result","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"bob@example.com"}}]}`)},
		"Anthropic, an attachment": {fmt.Sprintf(anthropic, `{"type":"document","source":{"type":"text","data":"bob@example.com"}}`)},
		"Anthropic, a search":      {fmt.Sprintf(anthropic, `{"type":"search_result","source":"x","title":"bob@example.com","content":[{"type":"text","text":"y"}]}`)},
		"Anthropic, JSON":          {fmt.Sprintf(anthropic, `{"type":"tool_result","content":"{\"to\":\"bo\\u0062@example.com\"}"}`)},
		"Chat, text":               {`{"messages":[{"role":"user","content":"user@example.com"},{"role":"tool","tool_call_id":"a","content":"bob@example.com"}]}`},
		"Chat, parts":              {`{"messages":[{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"bob@example.com"}]}]}`},
		"Chat, the old role":       {`{"messages":[{"role":"function","name":"f","content":"bob@example.com"}]}`},
		"Responses, text":          {`{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"user@example.com"}]},{"type":"function_call_output","call_id":"a","output":"bob@example.com"}]}`},
		"Responses, parts":         {`{"input":[{"type":"custom_tool_call_output","call_id":"a","output":[{"type":"input_text","text":"bob@example.com"}]}]}`},
		"Responses, a shell":       {`{"input":[{"type":"shell_call_output","call_id":"a","output":[{"stdout":"bob@example.com","stderr":""}]}]}`},
		"Responses, a server":      {`{"input":[{"type":"mcp_call","arguments":"{\"x\":\"input@example.com\"}","output":"bob@example.com"}]}`},
		"a type that is escaped":   {`{"messages":[{"role":"user","content":[{"type":"tool\u005fresult","content":"bob@example.com"}]}]}`},
		"a body that is cut":       {`{"messages":[{"role":"tool","content":"bob@example.com"},{"role":"`},
	} {
		l := provenance.New()
		l.ObserveModelRequest([]byte(c.body), nacre.SeenUntrusted)
		if have := origin(t, l, "bob@example.com"); have.Provenance != nacre.SeenUntrusted || have.Sources[0] != provenance.ProjectSource {
			t.Errorf("%s: have %+v", name, have)
		}
		for _, value := range []string{"user@example.com", "system@example.com", "input@example.com", "text@example.com"} {
			if have := origin(t, l, value); have.Provenance != nacre.SeenNowhere {
				t.Errorf("%s: %s: have %+v, want nowhere", name, value, have)
			}
		}
		if l.Tainted() {
			t.Errorf("%s: tainted", name)
		}
	}
}

func TestWhatIsNoTextIsNotRead(t *testing.T) {
	l := provenance.New()
	l.ObserveModelRequest([]byte(`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"id-one","content":[
		{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aWQtdHdv"}}]}]}]}`), nacre.SeenUntrusted)
	for _, value := range []string{"id-one", "aWQtdHdv", "image/png", "base64"} {
		if have := origin(t, l, value); have.Provenance != nacre.SeenNowhere {
			t.Errorf("%s: have %+v", value, have)
		}
	}
}

func TestBodiesThatAreNoneHaveNoResults(t *testing.T) {
	l := provenance.New()
	deep := strings.Repeat(`{"content":[`, 50_000)
	for _, body := range []string{
		``, `"`, `{`, `[`, `{"messages"`, `{"messages":`, `{"messages":[`, `{"messages":["`, `{"messages":[{"role":"tool"`, `{"messages":[{"role":"tool","content":"`,
		`{"messages":{}}`, `{"messages":[1,2,,]}`, `{"messages":[{"role":"tool","content":` + deep, `{"messages":[{"type":"tool_result","content":"\`, `nope`, "\x00",
	} {
		l.ObserveModelRequest([]byte(body), nacre.SeenTrusted)
	}
}

// A brain that was told an address by an outsider can print it.
func TestATrustedProjectIsTrustedUntilTheSessionIsTainted(t *testing.T) {
	body := func(text string) []byte { return fmt.Appendf(nil, `{"messages":[{"role":"tool","content":%q}]}`, text) }
	l := provenance.New()
	l.ObserveModelRequest(body("bob@example.com"), nacre.SeenTrusted)
	l.Observe(untrusted, []byte("write to evil@example.org"))
	l.ObserveModelRequest(body("$ echo evil@example.org"), nacre.SeenTrusted)
	l.ObserveModelRequest(body("$ echo evil at example.net"), nacre.SeenOperator)
	for value, want := range map[string]nacre.Provenance{
		"bob@example.com": nacre.SeenTrusted, "evil@example.org": nacre.SeenUntrusted, "evil at example.net": nacre.SeenUntrusted,
	} {
		if have := origin(t, l, value); have.Provenance != want {
			t.Errorf("%s: have %+v, want %v", value, have, want)
		}
	}
}

func TestABlockIsReadOnce(t *testing.T) {
	l := provenance.New()
	l.ObserveProject(nacre.Source{Provenance: nacre.SeenUntrusted, Name: "README.md"}, []byte("first@example.com"))
	body := []byte(`{"messages":[{"role":"tool","content":"` + strings.Repeat("text of a page ", 10_000) + `"}]}`)
	for range 100 {
		l.ObserveModelRequest(body, nacre.SeenUntrusted)
	}
	if have := origin(t, l, "first@example.com"); have.Provenance != nacre.SeenUntrusted {
		t.Errorf("a block that came again let go of older text: have %+v", have)
	}
}
