package main_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
)

// D-27: nacre serve takes what a plugin's folder is now, tools that are new, changed and gone
// included. Agents that start from then on have them, and other plugins notice nothing. What cannot
// be started changes nothing.
func TestAServedPluginIsReloadedWithOtherTools(t *testing.T) {
	t.Parallel()
	turn := func(command string) scriptedmodel.Turn {
		input, _ := json.Marshal(map[string]string{"command": command + " >> /workspace/group/said 2>&1; true"})
		return scriptedmodel.Turn{Tools: []scriptedmodel.Tool{{Name: "shell", Input: input}}}
	}
	const listed = `ipc list_tools '{}'; ipc tool.invoke.send_box '{"recipient":"ada","body":"hello"}'; ipc tool.invoke.call_box '{"recipient":"ada","body":"called"}'`
	var turns []scriptedmodel.Turn
	for range 4 {
		turns = append(turns, turn("{ echo; echo; "+listed+"; }"), scriptedmodel.Turn{Text: "Done."})
	}
	i, _ := served(t, "[groups.family]\ntools = [\"*_box\"]\n[[route]]\nchannel = \"box\"\nsender = \"ada\"\ngroup = \"family\"\noperator = true\n", turns...)
	manifest := "home/.local/share/nacre/plugins/box/manifest.json"
	var m map[string]any
	if err := json.Unmarshal([]byte(channelManifest), &m); err != nil {
		t.Fatal(err)
	}
	provides := m["provides"].(map[string]any)
	send := provides["tools"].([]any)[0].(map[string]any)
	tools := func(list ...map[string]any) {
		provides["tools"] = list
		text, _ := json.Marshal(m) // it came from JSON
		i.write(manifest, string(text))
	}
	send["returns"] = "trusted" // one call is to taint no other
	tools(send)
	called := map[string]any{}
	for k, v := range send {
		called[k] = v
	}
	called["name"] = "call_box"
	told, stop := i.serve()
	said := func(n int) string {
		i.say("ada:what can you do?")
		until(t, "the turn", func() bool { return strings.Count(told(), "agent.completed") == n })
		all := strings.Split(fileText(i.state("groups", "family", "workspace", "said")), "\n\n\n")
		return all[len(all)-1]
	}
	first := said(1)
	has(t, first, `"send_box"`, "UNKNOWN_TOOL")
	hasNo(t, first, `"call_box"`)

	send["description"] = "Send it, but in other words"
	tools(send, called)
	has(t, i.nacre("plugin", "reload", "box").stdout, "reloaded")
	second := said(2)
	has(t, second, `"send_box"`, `"call_box"`, "in other words")
	hasNo(t, second, "UNKNOWN_TOOL")

	i.write(manifest, `{"description": "half`)
	i.nacre("plugin", "reload", "box").want(t, 1, "goes on as it was", "manifest.json: line 1: not JSON")
	has(t, said(3), `"call_box"`)

	tools(send)
	i.nacre("plugin", "reload", "box").want(t, 0, "reloaded")
	last := said(4)
	has(t, last, `"send_box"`, "UNKNOWN_TOOL")
	hasNo(t, last, `"call_box"`)
	stop()
	i.nacre("audit", "verify").want(t, 0)
}
