package main_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
)

// F-64: a route is the right to be answered. The answer goes to the very sender of a message,
// however short the name is, with nobody asked, also where the sender is no operator. Whoever else
// the agent would write to is asked about.
func TestTheSenderIsAnsweredUnattended(t *testing.T) {
	t.Parallel()
	for name, operator := range map[string]string{"an outsider": "false", "an operator": "true"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			turn := func(to string) scriptedmodel.Turn {
				return scriptedmodel.Turn{Tools: []scriptedmodel.Tool{{Name: "shell", Input: []byte(`{"command":"ipc tool.invoke.send_box '{\"recipient\":\"` + to + `\",\"body\":\"hello\"}'"}`)}}}
			}
			// What the plugin returns taints the session: its second call is made by a tainted one.
			i, _ := served(t, "ask_seconds = 600\n[groups.main]\ntools = [\"send_box\"]\n[[route]]\nchannel = \"box\"\ngroup = \"main\"\noperator = "+operator+"\n",
				turn("al"), turn("al"), turn("mallory"), scriptedmodel.Turn{Text: "Done."})
			i.write("home/.local/share/nacre/plugins/box/manifest.json", strings.Replace(channelManifest, `"arguments_schema"`, `"sinks": ["recipient"], "arguments_schema"`, 1))
			i.serve()
			i.say("al:what is the time?")
			until(t, "the question about somebody else", func() bool { return len(i.questions()) == 1 })
			if have := i.outbox(); have != "main al: hello\nmain al: hello\n" {
				t.Errorf("have %q", have)
			}
			if q := i.question(); !strings.Contains(string(q.Arguments), "mallory") {
				t.Errorf("have %s", q.Arguments)
			}
			i.nacre("approvals", "deny", i.question().ID).want(t, 0)
		})
	}
}

// M-50b: an outsider is told unasked what is public, and not what the group keeps. Once the agent
// has looked into its memory, a person is asked, in the next turn too.
func TestAnOutsiderIsNotToldWhatTheGroupKeeps(t *testing.T) {
	t.Parallel()
	for name, public := range map[string]string{"kept": "", "public": `public = ["memory_search"]`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			call := func(tool, arguments string) scriptedmodel.Turn {
				return scriptedmodel.Turn{Tools: []scriptedmodel.Tool{{Name: "shell", Input: []byte(`{"command":"ipc tool.invoke.` + tool + ` '` + arguments + `'"}`)}}}
			}
			send := call("send_box", `{\"recipient\":\"al\",\"body\":\"hello\"}`)
			i, _ := served(t, "ask_seconds = 600\n[groups.main]\ntools = [\"send_box\", \"memory_*\"]\n"+public+"\n[[route]]\nchannel = \"box\"\ngroup = \"main\"\nsession = \"resume\"\n",
				send, call("memory_search", `{\"query\":\"keys\"}`), scriptedmodel.Turn{Text: "Done."}, send, scriptedmodel.Turn{Text: "Done."})
			i.write("home/.local/share/nacre/plugins/box/manifest.json", strings.Replace(channelManifest, `"arguments_schema"`, `"sinks": ["recipient"], "arguments_schema"`, 1))
			i.serve()
			i.say("al:where are the keys?")
			until(t, "the first answer", func() bool { return i.outbox() == "main al: hello\n" })
			i.say("al:and now?")
			if public != "" {
				until(t, "the second answer", func() bool { return i.outbox() == "main al: hello\nmain al: hello\n" })
				return
			}
			until(t, "the question", func() bool { return len(i.questions()) == 1 })
			if q := i.question(); !strings.Contains(string(q.Arguments), `"al"`) || i.outbox() != "main al: hello\n" {
				t.Errorf("have %s, and %q was sent", q.Arguments, i.outbox())
			}
			i.nacre("approvals", "deny", i.question().ID).want(t, 0)
		})
	}
}

// M-50b: what the group's memory holds is not told before an outsider's turn. Once an operator's
// turn was told it, an outsider of the same conversation is answered with a question.
func TestAnOutsiderIsNotToldWhatAnOperatorWas(t *testing.T) {
	t.Parallel()
	const kept = "the safe is behind the picture"
	shell := func(call, arguments string) []scriptedmodel.Turn {
		command, _ := json.Marshal(map[string]string{"command": "ipc " + call + " '" + arguments + "'"})
		return []scriptedmodel.Turn{{Tools: []scriptedmodel.Tool{{Name: "shell", Input: command}}}, {Text: "Done."}}
	}
	hello := shell("tool.invoke.send_box", `{"recipient":"al","body":"hello"}`)
	i, server := servedBy(t, "ask_seconds = 600\n[groups.main]\ntools = [\"send_box\", \"memory_*\"]\n"+
		"[[route]]\nchannel = \"box\"\nchat = \"room\"\ngroup = \"main\"\nsession = \"resume\"\noperator = true\n"+
		"[[route]]\nchannel = \"box\"\nsender = \"al\"\ngroup = \"main\"\nsession = \"resume\"\n",
		scriptedmodel.Script{Turns: shell("memory_store", `{"type":"fact","content":"`+kept+`"}`), Others: []scriptedmodel.Other{
			{Match: scriptedmodel.Match{Contains: "hello from outside"}, Turns: hello},
			{Match: scriptedmodel.Match{Contains: "hello in the room"}, Turns: hello},
			{Match: scriptedmodel.Match{Contains: "good morning"}, Turns: []scriptedmodel.Turn{{Text: "Good morning."}}},
		}})
	i.write("home/.local/share/nacre/plugins/box/manifest.json", strings.Replace(channelManifest, `"arguments_schema"`, `"sinks": ["recipient"], "arguments_schema"`, 1))
	i.write("home/.local/share/nacre/plugins/box/handler.py", strings.Replace(channelHandler, `{"session": session}`, `{"chat": session}`, 1))
	said, _ := i.serve()
	turns := 0
	says := func(words string) {
		t.Helper()
		turns++
		i.say(words)
		until(t, words, func() bool { return strings.Count(said(), "agent.completed") == turns })
	}
	says("ada/room:keep this")
	i.nacre("memory", "trust", i.reviewed("main")[0].ID).want(t, 0)
	before := len(server.Requests())
	says("al:hello from outside")
	if i.outbox() != "main al: hello\n" {
		t.Errorf("%q was sent", i.outbox())
	}
	for _, r := range server.Requests()[before:] {
		hasNo(t, string(r.Body), kept)
	}
	before = len(server.Requests())
	says("ada/room:good morning")
	has(t, string(server.Requests()[before].Body), kept)
	i.say("al/room:hello in the room")
	until(t, "the question", func() bool { return len(i.questions()) == 1 })
	if i.outbox() != "main al: hello\n" {
		t.Errorf("%q was sent", i.outbox())
	}
	i.nacre("approvals", "deny", i.question().ID).want(t, 0)
}
