package main_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// has wants each part in a text.
func has(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("have no %q in\n%.4000s", part, text)
		}
	}
}

// hasNo wants none of the parts in a text.
func hasNo(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("there is %q in\n%.4000s", part, text)
		}
	}
}

// D-02, K-18: what an agent may hint at, through ipc and as it comes on the wire.
func TestHintsAreCheckedAndADryRunDoesNothing(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools)
	message := `{"topic":"tool.invoke.send","correlation":"c1","arguments":{"to":"x"},"dry_run":true,"mode":"table","justification":"wished"%s}` + "\n"
	i.write("p/hints", fmt.Sprintf(message, "")+fmt.Sprintf(message, `,"priority":1`)+strings.Replace(fmt.Sprintf(message, ""), "table", "all", 1)+
		strings.Replace(fmt.Sprintf(message, ""), `:true`, `:"yes"`, 1)+strings.Replace(fmt.Sprintf(message, ""), "dry_run", "Dry_Run", 1))
	i.git("add", "-A")
	i.git("commit", "-q", "-m", "hints")
	said := i.play("a task", `ipc --dry-run --justification wished send '{"to":"x"}'`, `ipc --mode all send '{"to":"x"}'`, `./probe <hints`,
		`ipc --dry-run send '{"too":"x"}'`, `ipc --dry-run --mode raw rows '{"count":2}'`)
	has(t, said[0], `"dry_run":true`, `"capability":"desk.send"`, `"safety_class":"WRITE"`, `"verdict":"allow"`, `"arguments":{"text":"","to":"x"}`)
	has(t, said[1], `"VALIDATION_FAILED"`, "mode", "handle_only")
	lines := strings.Split(said[2], "\n")
	has(t, lines[0], "core c1 ", `"dry_run":true`, `"response_mode":"table"`) // nobody but the core was asked
	for n, name := range []string{"priority", "mode", "dry_run", "Dry_Run"} {
		has(t, lines[n+1], `"VALIDATION_FAILED"`, `"result":null`, name)
	}
	has(t, said[3], `"VALIDATION_FAILED"`, `"field":"too"`)
	has(t, said[4], `"response_mode":"summary"`)
	if have := i.done(); have != "" {
		t.Errorf("it did %q", have)
	}
	chain := i.records("work")
	hasNo(t, chain, `"kind":"call.begin"`)
	if have := strings.Count(chain, `"kind":"call.dry_run"`); have != 3 {
		t.Errorf("%d dry runs are recorded", have)
	}
	// What the agent says is recorded by size and digest, and counts for nothing.
	has(t, chain, `"agent_words":{"bytes":6,"sha256"`, `"justification":6`)
	i.nacre("audit", "verify").want(t, 0)
}

// D-10, K-14: what fits is passed on as it is; what does not becomes a frame.
func TestAResultWithinBudgetIsUnchangedAndALargerOneIsAFrame(t *testing.T) {
	t.Parallel()
	i := desk(t, "[results]\nchars = 4000\n"+deskTools)
	said := i.play("a task", `ipc say '{"text":"hello"}'`, `ipc rows '{"count":1000}'`, `ipc --mode raw rows '{"count":1000}'`,
		`ipc --mode handle_only rows '{"count":3}'`, `ipc --mode table rows '{"count":1000}'`)
	const whole = "{\"result\":{\"nested\":{\"deep\":[1,2.5,true,null,\"ä\u202e\"]},\"text\":\"hello\"},\"error\":null}\n"
	if said[0] != whole {
		t.Errorf("have %s", said[0])
	}
	has(t, said[1], `"mode":"summary"`, `"Total rows: 1000"`, `"handle":{"id":"h_`, `"rows":1000`)
	has(t, said[2], `"mode":"summary"`, "raw mode requires admin")
	has(t, said[3], `"mode":"handle_only"`, `"rows":[]`)
	has(t, said[4], `"mode":"table"`, `"rows":[{"id":0`)
	for n, s := range said {
		if len(s) > 4600 {
			t.Errorf("answer %d has %d bytes", n, len(s))
		}
	}
}

func TestAnAdminMaySeeAResultRaw(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools+"roles = [\"writer\", \"admin\"]\n")
	has(t, i.play("a task", `ipc --mode raw rows '{"count":40}'`)[0], `"id":39`)
}

// readWhole reads a text through the pages of its handle, and says in how many calls.
const readWhole = `handle=$(cat first | sed 's/.*"handle":{"id":"\(h_[0-9a-f]*\)".*/\1/'); from=0; calls=1; : >whole
while [ -n "$from" ] && [ $calls -lt 20 ]; do
  printf '{"handle":"%s","query":"{\\"path\\":\\"text\\",\\"from\\":%s}"}' "$handle" "$from" | ipc expand_handle - >page
  sed 's/.*"text":"\([^"]*\)".*/\1/' page | tr -d '\n' >>whole
  from=$(sed -n 's/.*"next":\([0-9]*\).*/\1/p' page); calls=$((calls+1))
done; echo "$calls calls"; cmp text whole && echo the same`

// K-31, F-28: a text that does not fit is read whole through ipc, within the session's budget. One
// that fits is passed on as it is.
func TestALongTextIsReadWholeThroughIPC(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools)
	said := i.play("a task", `seq -f 'this is line %g of a text that is long enough to be cut.' 1 170 | tr '\n' ' ' >part; for n in $(seq 100); do cat part; done >text; wc -c <text
{ printf '{"times":100,"text":"'; cat part; printf '"}'; } | ipc say - >first`, readWhole,
		`{ printf '{"times":6,"text":"'; cat part; printf '"}'; } | ipc say - | wc -c`)
	if size, err := strconv.Atoi(strings.TrimSpace(said[0])); err != nil || size < 970_000 {
		t.Errorf("the text has %s", said[0])
	}
	has(t, said[1], "11 calls", "the same")
	if size, err := strconv.Atoi(strings.TrimSpace(said[2])); err != nil || size < 58_000 {
		t.Errorf("58,000 characters are shown as %s", said[2])
	}
}

// readRows reads the rows at a path through the pages of a handle, and says in how many calls.
const readRows = `handle=$(sed 's/.*"handle":{"id":"\(h_[0-9a-f]*\)".*/\1/' first); have=0; calls=1; : >names
while [ $have -lt 2000 ] && [ $calls -lt 20 ]; do
  printf '{"handle":"%s","query":"{\\"path\\":\\"data.issues\\",\\"offset\\":%s}"}' "$handle" $have | ipc expand_handle - >page
  grep -o '"lead of [0-9]*"' page >>names; have=$(wc -l <names); calls=$((calls+1))
done; echo "$calls calls"; seq -f '"lead of %g"' 0 1999 | cmp names - && echo the same
printf '{"handle":"%s","query":"{\\"path\\":\\"data.issues[3].author.of.team.lead.name\\"}"}' "$handle" | ipc expand_handle -`

// K-31: 2,000 rows, in each of which more stands inside, are read whole through ipc.
func TestManyNestedRowsAreReadWholeThroughIPC(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools)
	said := i.play("a task", `ipc rows '{"count":2000,"nested":true}' >first`, readRows)
	has(t, said[1], " calls", "the same", `"text":"lead of 3"`)
}

// keepHandle leaves the handle of a large result for later commands.
const keepHandle = `ipc rows '{"count":1000}' | sed 's/.*"id":"\(h_[0-9a-f]*\)".*/\1/' > handle; cat handle`

// expand asks for a page of the kept handle.
func expand(query string) string {
	return `printf '{"handle":"%s","query":"%s"}' "$(cat handle)" '` + strings.ReplaceAll(query, `"`, `\"`) + `' | ipc expand_handle -`
}

// K-17, D-30: pages, fields and filters of what a handle stands for.
func TestAHandleGivesPages(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools)
	said := i.play("a task", keepHandle, expand(`{"offset":990,"limit":5}`), expand(`{"fields":["id"],"filter":{"status":"done"},"limit":3}`),
		expand(`{"filter":{"id":999}}`), expand(`{"filter":{"nothing":1}}`), expand(`{"frob":1}`), expand(`not json`),
		`ipc expand_handle '{"handle":"h_00000000000000000000000000000000"}'`, `ipc expand_handle '{"handle":"../../x"}'`, expand(``))
	has(t, said[1], `"rows":[{"id":990,`, `"id":994`)
	hasNo(t, said[1], `"id":995`)
	has(t, said[2], `"rows":[{"id":1},{"id":3},{"id":5}]`)
	has(t, said[3], `"rows":[{"id":999,`)
	hasNo(t, said[4], `"id":0`)
	has(t, said[5], `"VALIDATION_FAILED"`, `"field":"query"`, "frob")
	has(t, said[6], `"VALIDATION_FAILED"`, "query must be an object")
	has(t, said[7], `"UNAUTHORIZED"`, "handle is unknown or has expired")
	has(t, said[8], `"UNAUTHORIZED"`, "handle is unknown or has expired")
	has(t, said[9], `"rows":[{"id":0,`)
	chain := i.records("work")
	has(t, chain, `"kind":"handle.expand"`, `"reason":"handle_unknown"`)
	i.nacre("audit", "verify").want(t, 0)
}

// K-17: a handle is of use to its own session only, also while that is at work.
func TestAHandleIsOfNoUseToAnotherSession(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools)
	owner := i.plays("owner", "a task", keepHandle, untilTold("owner", "go"), expand(`{"offset":7,"limit":1}`))
	var kept []byte
	eventually(t, "a handle", func() bool {
		kept, _ = os.ReadFile(filepath.Join(i.workspace("owner"), "handle"))
		return strings.HasSuffix(string(kept), "\n")
	})
	other := i.plays("other", "a task", `echo `+strings.TrimSpace(string(kept))+` > other`, strings.ReplaceAll(expand(`{}`), "cat handle", "cat other"))
	has(t, i.said(other, "other")[1], `"UNAUTHORIZED"`, "handle is unknown or has expired")
	i.tell("owner", "go")
	has(t, i.said(owner, "owner")[2], `"rows":[{"id":7,`)
}

// D-30: a call that the door itself refused, in stage 1 or 2, is no less a call.
func TestDiagnosticsTellWhatTheDoorRefused(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools)
	said := i.play("a task", `printf '%s\n' '{"topic":"tool.invoke.nope","correlation":"two","arguments":{}}' | ./probe`,
		`printf '%s\n' '{"topic":"tool.invoke.say","correlation":"one","arguments":[]}' | ./probe`,
		`ipc get_diagnostics '{"correlation":"two"}'`, `ipc get_diagnostics '{"filter_outcome":"rejected"}'`, `ipc get_diagnostics '{"filter_outcome":"error"}'`)
	has(t, said[2], `"correlation":"two","stage":2,"outcome":"rejected","code":"UNKNOWN_TOOL","reason":"unknown_tool"`)
	hasNo(t, said[2], `"correlation":"one"`)
	has(t, said[3], `"correlation":"two"`, `"correlation":"one","stage":1,"outcome":"rejected","code":"VALIDATION_FAILED"`)
	has(t, said[4], `"correlation":"two"`, `"correlation":"one"`) // what was rejected is an error too (F-83)
}

// D-30: what became of a session's calls, and of no other's.
func TestDiagnosticsTellWhatBecameOfCalls(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools)
	said := i.play("a task", `ipc fail '{"code":"NOT_FOUND"}'`, `ipc fail '{"code":"UNAUTHORIZED"}'`, `ipc say '{}'`, `ipc say '{"text":"x"}'`,
		`printf '%s\n' '{"topic":"tool.invoke.say","correlation":"mine","arguments":{"text":"y"}}' | ./probe`,
		`ipc get_diagnostics '{"filter_outcome":"error"}'`, `ipc get_diagnostics '{"filter_outcome":"rejected"}'`,
		`ipc get_diagnostics '{"correlation":"mine"}'`, `ipc get_diagnostics '{"last_n":1}'`, `ipc get_diagnostics '{"last_n":0}'`,
		`ipc list_tools '{"query":"send a letter"}'`, `ipc list_tools '{}'`, `ipc list_tools '{"query":"zzzz"}'`)
	has(t, said[0], `"HANDLER_ERROR"`)
	has(t, said[1], `"HANDLER_ERROR"`) // a handler cannot speak with the core's codes
	has(t, said[5], `"original_code":"NOT_FOUND"`, `"original_code":"UNAUTHORIZED"`, `"tool":"fail"`)
	has(t, said[5], `"tool":"say","correlation":`, `"outcome":"rejected"`) // F-83
	hasNo(t, said[5], `"mine"`)
	has(t, said[6], `"VALIDATION_FAILED"`, `"stage":3`)
	if have := strings.Count(said[7], `"event"`); have != 1 || !strings.Contains(said[7], `"correlation":"mine"`) {
		t.Errorf("have %d in %s", have, said[7])
	}
	has(t, said[8], `"tool":"get_diagnostics"`)
	has(t, said[9], `"VALIDATION_FAILED"`, `"field":"last_n"`)
	has(t, said[8], `"degraded":[]`)
	var found struct {
		Result struct{ Tools []struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(said[10]), &found); err != nil || len(found.Result.Tools) == 0 || found.Result.Tools[0].Name != "send" {
		t.Errorf("have %v %s", err, said[10])
	}
	hasNo(t, said[10], `"get_session_info"`)
	has(t, said[11], `"send"`, `"expand_handle"`, `"get_diagnostics"`)
	hasNo(t, said[11], `"memory_store"`) // the group may not use it
	has(t, said[12], `"tools":[]`)
}

// D-30, D-14: a plugin that did not answer three times in a row is degraded.
func TestAPluginThatDoesNotAnswerIsDegraded(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for a handler's deadline of 30 s")
	}
	i := desk(t, deskTools)
	said := i.play("a task", `ipc hang '{}' & ipc hang '{}' & ipc hang '{}' & wait; ipc get_diagnostics '{"last_n":2}'`,
		`ipc say '{"text":"x"}'; ipc get_diagnostics '{"last_n":1}'`)
	if have := strings.Count(said[0], `{"code":"PLUGIN_TIMEOUT"`); have != 3 {
		t.Errorf("%d time-outs in %s", have, said[0])
	}
	has(t, said[0], `"degraded":["desk"]`, `"plugin_state":"DEGRADED"`)
	has(t, said[1], `"text":"x"`, `"degraded":[]`)
	hasNo(t, said[1], "DEGRADED")
}

// K-16: a session is shown less as what it may see runs out, and is then
// refused before anything is done.
func TestTheOutputBudgetEndsBeforeTheEffect(t *testing.T) {
	t.Parallel()
	i := desk(t, "output_tokens = 3000\n"+deskTools)
	said := i.play("a task", `for n in 1 2 3 4 5 6 7 8 9; do ipc rows '{"count":1000}'; done`, `ipc --mode table rows '{"count":1000}'`,
		`for n in 1 2 3 4 5 6; do ipc rows '{"count":1000}'; done`, `ipc send '{"to":"x"}'`)
	has(t, said[0], `"handle"`)
	has(t, said[1], `"mode":"summary"`) // first it shows less
	has(t, said[3], `"RATE_LIMITED"`, "has been shown all that it may be")
	if have := i.done(); strings.Contains(have, "send") {
		t.Errorf("it did %s", have)
	}
	has(t, i.records("work"), `"reason":"output_budget_exhausted"`)
}

// leaked are the forms in which the plugin returns its secret.
func leaked() []string {
	key := "ghp_" + "Zq81" + "kD0sWm47Xr2LtVb9" + "Yc6NfHjP3uEaQ5Gx"
	half := len(key) / 2
	return []string{
		key, base64.StdEncoding.EncodeToString([]byte("token=" + key)), base64.StdEncoding.EncodeToString([]byte("me:" + key)),
		key[:half], key[half:], "hunter2-" + strings.ToLower(key[4:16]), strings.Join(strings.Split(key, ""), "\u200b"),
	}
}

// K-15, D-15: what a tool lets out is seen by nobody: not the agent, nor the
// terminal, nor any file that nacre keeps.
func TestASecretOfAToolIsSeenByNobody(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools)
	key := leaked()[0]
	r := i.plays("work", "a task", `ipc leak '{}'`, `ipc fail '{"code":"LEAKY"}'`, `ipc leak '{}' >&2; echo end`, `ipc say '{"text":"`+key+`"}'`,
		`ipc --justification '`+key+`' fail '{"code":"`+key+`"}'`, `ipc `+key+` '{}'`, `ipc --mode `+key+` say '{"text":"x"}'`,
		`ipc --mode handle_only leak '{}' | sed 's/.*"id":"\(h_[0-9a-f]*\)".*/\1/' > handle`, expand(`{}`), `ipc get_diagnostics '{}'`,
		`ipc crash '{}'; ipc get_session_info '{}'`)
	said := strings.Join(i.said(r, "work"), "\n")
	has(t, said, `"[REDACTED]":"a key"`, `"fine"`, `"PLUGIN_ERROR"`)
	hasNo(t, said+r.stdout.String()+r.stderr.String(), leaked()...)
	hasNo(t, i.nacre("audit", "show", "work").stdout+i.nacre("audit", "show", "work", "--json").stdout, leaked()...)
	err := filepath.WalkDir(i.state(), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || strings.HasPrefix(path, i.state("data")) {
			return err // the plugin's own folder is the plugin's
		}
		data, err := os.ReadFile(path)
		for _, form := range leaked() {
			if strings.Contains(string(data), form) {
				t.Errorf("%s holds %q", path, form)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// D-16, D-02: a flood of what is refused does not fill the chain, and the
// session goes on.
func TestAFloodOfRefusalsIsAggregated(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools)
	said := i.play("a task", `yes null | head -n 2000 | ./probe | grep -c VALIDATION_FAILED`,
		`yes '{"topic":"tool.invoke.nothing","correlation":"c","arguments":{}}' | head -n 2000 | ./probe | grep -c UNKNOWN_TOOL`,
		`yes '{"topic":"tool.invoke.rows","correlation":"c","arguments":{"count":"x"}}' | head -n 2000 | ./probe | grep -c VALIDATION_FAILED`,
		`ipc rows '{"count":1}'`)
	for _, s := range said[:3] {
		if s != "2000\n" {
			t.Errorf("have %s", s)
		}
	}
	has(t, said[3], `"id":0`)
	chain := i.records("work")
	if have := strings.Count(chain, `"kind":"call.reject"`); have > 500 || have == 0 {
		t.Errorf("%d refusals are recorded in %d bytes", have, len(chain))
	}
	i.nacre("audit", "verify").want(t, 0)
}

// D-08: the same tools over MCP, inside the sandbox.
func TestTheDoorSpeaksMCP(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools)
	i.write("p/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"rows","arguments":{"count":1}}}
{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"shred_not","arguments":{}}}
{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"rows","arguments":{"count":"x"}}}
{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"leak","arguments":{}}}
{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"shred","arguments":{"name":"a"}}}
`)
	i.git("add", "-A")
	i.git("commit", "-q", "-m", "mcp")
	r := i.plays("work", "a task", `{ cat mcp; until grep -qs '"id":7' said/work/0; do sleep 0.02; done; } | ipc-mcp`)
	i.nacre("approvals", "deny", i.question().ID).want(t, 0)
	said := i.said(r, "work")[0]
	answers := map[string]string{}
	for _, line := range strings.Split(said, "\n") {
		if id := regexp.MustCompile(`"id":(\d)`).FindStringSubmatch(line); id != nil {
			answers[id[1]] = line
		}
	}
	has(t, answers["1"], `"serverInfo"`, `"tools"`)
	has(t, answers["2"], `"name":"rows"`, `"name":"get_session_info"`, `"inputSchema"`)
	has(t, answers["3"], `row number 0`)
	has(t, answers["4"], "shred_not")
	has(t, answers["5"], `"isError":true`, "VALIDATION_FAILED")
	has(t, answers["7"], `"isError":true`, "CONFIRMATION_DENIED")
	hasNo(t, said, leaked()...)
	has(t, i.records("work"), `"topic":"tool.invoke.rows"`)
}

// K-20, K-21: what a run did is on a chain that verifies, begin by begin.
func TestEveryCallBeginsAndEndsOnTheChain(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools)
	i.play("a task", `ipc rows '{"count":1}'`, `ipc send '{"to":"x"}'`, `ipc fail '{"code":"X"}'`, `ipc say '{}'`, `ipc --dry-run say '{"text":"x"}'`, keepHandle, expand(`{}`))
	open := map[string]int{}
	kinds := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(i.records("work")), "\n") {
		var e struct {
			Kind   string
			Detail struct{ Call string }
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		kinds[e.Kind]++
		switch e.Kind {
		case "call.begin":
			open[e.Detail.Call]++
		case "call.end":
			open[e.Detail.Call]--
		}
	}
	for call, n := range open {
		if n != 0 || call == "" {
			t.Errorf("call %q is open %d times", call, n)
		}
	}
	for kind, want := range map[string]int{"call.begin": 5, "call.end": 5, "call.handler": 1, "call.dry_run": 1, "call.reject": 1, "handle.expand": 1} {
		if kinds[kind] != want {
			t.Errorf("%d records of %s, want %d", kinds[kind], kind, want)
		}
	}
	i.nacre("audit", "verify", "work").want(t, 0)
	i.nacre("audit", "verify", "--receipt", i.state("receipts/work.receipt")).want(t, 0, "holds")
}

// shippedPolicy is its text, as the reference prints it.
func shippedPolicy(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "## The shipped policy")
	_, text, _ = strings.Cut(text, "```toml\n")
	text, _, found := strings.Cut(text, "```")
	if !found {
		t.Fatal("docs/policy.md does not print the shipped policy")
	}
	return text
}

// K-06: a new policy is held against what really happened.
func TestAPolicyIsReplayedOnARealRun(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools)
	i.play("a task", `ipc rows '{"count":1}'`, `ipc send '{"to":"x"}'`, `ipc send '{"to":"y"}'`, `ipc --dry-run say '{"text":"x"}'`)
	shipped := i.write("shipped.toml", shippedPolicy(t))
	i.nacre("policy", "replay", shipped, i.state("audit")).want(t, 0, "4 calls: 4 decided as before, 0 changed")
	strict := i.write("strict.toml", "[[rules]]\nname = \"no letters\"\naction = \"deny\"\nmatch = { capability = [\"desk.send\"] }\n\n"+
		"[[rules]]\nname = \"reading\"\naction = \"allow\"\nmatch = { safety_class = [\"READ\"] }\n")
	i.nacre("policy", "replay", strict, i.state("audit")).want(t, 0, "desk.send", "allow → deny", "no letters", "2 changed")
	i.nacre("policy", "replay", strict, i.state("audit/work.1"), "--json").want(t, 0, `"changed":2`)
	i.nacre("policy", "check", shipped).want(t, 0)
	cases := i.write("cases.yaml", "cases:\n  - name: destroying\n    expect: ask\n    request: {capability: desk.shred, safety_class: DESTRUCTIVE}\n")
	i.nacre("policy", "test", shipped, cases).want(t, 0)
	i.nacre("policy", "test", strict, cases).want(t, 1, "destroying")
	i.nacre("policy", "explain", shipped, "--capability", "desk.shred", "--safety", "DESTRUCTIVE").want(t, 0, "what destroys is asked")
}

// K-12: what is revoked while a session is at work is refused from then on.
func TestARevokedGroupsNextCallIsRefused(t *testing.T) {
	t.Parallel()
	for _, whom := range []string{"main", "main/work"} {
		t.Run(whom, func(t *testing.T) {
			t.Parallel()
			i := desk(t, deskTools)
			r := i.plays("work", "a task", keepHandle, untilTold("work", "go"), letter("x"), expand(`{}`))
			eventually(t, "a first call", func() bool { return isThere(filepath.Join(i.workspace("work"), "said/work/1")) })
			i.nacre("grants", "revoke", whom).want(t, 0, "revoked")
			i.tell("work", "go")
			said := i.said(r, "work")
			has(t, said[0], "h_")
			has(t, said[2], `"UNAUTHORIZED"`, "the operator has revoked")
			has(t, i.records("work"), `"reason":"token_revoked"`)
			hasNo(t, said[3], "row number")
			if have := i.done(); have != "rows 1000\n" {
				t.Errorf("it did %q", have)
			}
		})
	}
}
