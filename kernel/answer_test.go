package kernel_test

import (
	"encoding/json"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/kernel"
)

// F-64: whoever woke a session may be answered by the tools that the route names. The right reaches
// no further: not to another value, tool, session or form of it.
func TestAnswer(t *testing.T) {
	const al = `{"to":"al"}`
	mail := map[nacre.ToolName]string{"mail_send": "to"}
	for name, c := range map[string]struct {
		recipients map[nacre.ToolName]string
		addresses  []string
		arguments  string
		asked      bool
	}{
		"the sender":               {mail, []string{"al"}, al, false},
		"the chat":                 {mail, []string{"x", "al"}, al, false},
		"somebody else":            {mail, []string{"al"}, `{"to":"alf"}`, true},
		"another case":             {mail, []string{"al"}, `{"to":"AL"}`, true},
		"another tool's right":     {map[nacre.ToolName]string{"book_find": "to"}, []string{"al"}, al, true},
		"another argument's right": {map[nacre.ToolName]string{"mail_send": "body"}, []string{"al"}, al, true},
		"no argument's right":      {map[nacre.ToolName]string{"mail_send": ""}, []string{"al"}, al, true},
		"no right":                 {nil, nil, al, true},
		"an empty address":         {mail, []string{""}, `{"to":""}`, true},
		"spelt with an escape":     {mail, []string{"al"}, `{"to":"\u0061l"}`, false},
		"no address but a letter":  {mail, []string{"a"}, al, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := openPostOffice(t)
			o.use(t, "web_fetch")
			if err := o.Answer(writer.SessionKey(), kernel.Answer{Recipients: c.recipients, Addresses: c.addresses, By: "the route"}); err != nil {
				t.Fatal(err)
			}
			_, err := o.Call(t.Context(), nacre.Call{Principal: writer, Tool: "mail_send", Arguments: json.RawMessage(c.arguments)})
			if asked := len(o.questions) == 1; asked != c.asked || (err != nil) != c.asked {
				t.Errorf("asked %t, want %t: %v", asked, c.asked, err)
			}
		})
	}
	t.Run("another session", func(t *testing.T) {
		o := openPostOffice(t)
		o.use(t, "web_fetch")
		other := nacre.KeyOf(writer.Group, "another")
		if err := o.Answer(other, kernel.Answer{Recipients: mail, Addresses: []string{"al"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Call(t.Context(), nacre.Call{Principal: writer, Tool: "mail_send", Arguments: json.RawMessage(al)}); err == nil || len(o.questions) != 1 {
			t.Errorf("have %v", err)
		}
	})
}

// F-64: the right to answer is for the argument that stands for the recipient. The same
// address in another argument in which a wrong value does harm is asked about.
func TestAnswerClearsOneArgument(t *testing.T) {
	for arguments, asked := range map[string]bool{
		`{"recipient":"al"}`:                      false,
		`{"recipient":"al","copy":"al"}`:          true,
		`{"copy":"al"}`:                           true,
		`{"recipient":["al"]}`:                    true,
		`{"recipient":"al","copy":"mallory.com"}`: true,
	} {
		o := openPostOffice(t)
		o.add(t, nacre.Capability{
			ID: "chat.send", Tool: "chat_send", Safety: nacre.Write, Sensitivity: nacre.SensitiveNone, Returns: nacre.Trusted,
			Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"recipient":{"type":["string","array"],"items":{"type":"string"}},"copy":{"type":"string"}}}`), Values: nacre.Values{Sinks: []string{"recipient", "copy"}},
		}, nil)
		o.use(t, "web_fetch")
		right := kernel.Answer{Recipients: map[nacre.ToolName]string{"chat_send": "recipient"}, Addresses: []string{"al"}, By: "the route"}
		if err := o.Answer(writer.SessionKey(), right); err != nil {
			t.Fatal(err)
		}
		_, err := o.Call(t.Context(), nacre.Call{Principal: writer, Tool: "chat_send", Arguments: json.RawMessage(arguments)})
		if have := len(o.questions) == 1; have != asked || (err != nil) != asked {
			t.Errorf("%s: asked %t, want %t: %v", arguments, have, asked, err)
		}
	}
}

// M-50b: who is no operator is answered unasked while the session has read nothing but what is
// public, and the channel's own. From then on a person is asked.
func TestAnswerEndsWithWhatIsNotPublic(t *testing.T) {
	const al = `{"to":"al"}`
	for name, c := range map[string]struct {
		right kernel.Answer
		asked bool
	}{
		"an operator":                         {kernel.Answer{}, false},
		"what is public":                      {kernel.Answer{Public: func(tool nacre.ToolName) bool { return tool == "web_fetch" }}, false},
		"what is not":                         {kernel.Answer{Public: func(nacre.ToolName) bool { return false }}, true},
		"what is not, in an earlier turn":     {kernel.Answer{Public: func(nacre.ToolName) bool { return true }, Ended: true}, true},
		"an operator, who reads it":           {kernel.Answer{Public: func(nacre.ToolName) bool { return false }, All: true}, false},
		"what the channel's own tool returns": {kernel.Answer{Public: func(nacre.ToolName) bool { return false }, Recipients: map[nacre.ToolName]string{"web_fetch": "url"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := openPostOffice(t)
			right := c.right
			right.Addresses, right.By = []string{"al"}, "the route"
			if right.Recipients == nil {
				right.Recipients = map[nacre.ToolName]string{}
			}
			right.Recipients["mail_send"] = "to"
			if err := o.Answer(writer.SessionKey(), right); err != nil {
				t.Fatal(err)
			}
			o.use(t, "web_fetch")
			if ended := o.AnswerEnded(writer.SessionKey()); ended != (c.asked || c.right.All) {
				t.Errorf("ended %t, want %t", ended, c.asked || c.right.All)
			}
			_, err := o.Call(t.Context(), nacre.Call{Principal: writer, Tool: "mail_send", Arguments: json.RawMessage(al)})
			if asked := len(o.questions) == 1; asked != c.asked || (err != nil) != c.asked {
				t.Errorf("asked %t, want %t: %v", asked, c.asked, err)
			}
		})
	}
}
