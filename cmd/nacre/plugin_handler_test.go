package main_test

import (
	"strings"
	"testing"
)

// handling replaces what the scaffold's tool aa_list does.
func (i *installation) handling(dir, body string) {
	i.t.Helper()
	text := fileText(i.work + "/" + dir + "/handler.py")
	const was = "        with self.open(group) as f:\n            notes = [json.loads(line) for line in f]\n"
	if !strings.Contains(text, was) {
		i.t.Fatal("the scaffold has another tool")
	}
	i.write(dir+"/handler.py", strings.Replace(text, was, body+was, 1))
}

// F-69: what a living handler prints is in the records: beside the call that it failed,
// and at its end. The agent learns nothing of it.
func TestWhatAHandlerPrintsIsKept(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	i.allowing(`"aa_*"`)
	dir := i.author("aa")
	i.handling(dir, "        if arguments.get('contains') == 'x': raise ValueError('the shelf is gone')\n        print('by the way', file=sys.stderr, flush=True)\n")
	r := i.nacre("exec", "--session", "s", "--project", "p", "--", "sh", "-c", `ipc aa_list '{"contains":"x"}'; ipc aa_list '{}'`)
	r.want(t, 0, "PLUGIN_ERROR")
	hasNo(t, r.stdout+r.stderr, "the shelf is gone", "by the way")
	records := i.nacre("audit", "show", "s", "--json").stdout
	for _, line := range strings.Split(records, "\n") {
		if strings.Contains(line, `"plugin.error"`) {
			has(t, line, "the shelf is gone")
		}
		if strings.Contains(line, `"plugin.stopped"`) && strings.Contains(line, `"aa"`) {
			has(t, line, "by the way")
		}
	}
	has(t, records, `"plugin.error"`, `"plugin.stopped"`, "by the way")
}

// F-70: a result that is no JSON fails its call, and the handler lives.
func TestANaNFailsOneCall(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	i.allowing(`"aa_*"`)
	dir := i.author("aa")
	i.handling(dir, "        if arguments.get('contains') == 'x': return {'n': float('nan')}\n")
	r := i.nacre("exec", "--session", "s", "--project", "p", "--", "sh", "-c", `ipc aa_list '{"contains":"x"}'; ipc aa_list '{}'`)
	r.want(t, 0, "PLUGIN_ERROR", `"notes": []`)
	hasNo(t, i.nacre("audit", "show", "s", "--json").stdout, "plugin.crashed")
}

// F-68: a handler that publishes an event works where nobody subscribes, too: the event
// is taken, and recorded as not delivered.
func TestAnEventThatNobodyHears(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	i.allowing(`"aa_*"`)
	dir := i.author("aa")
	text := fileText(i.work + "/" + dir + "/handler.py")
	text = strings.Replace(text, "            return self.tools[name]", `            print(json.dumps({"jsonrpc": "2.0", "id": "e", "method": "publishEvent", "params": {"ticket": params["ticket"], "topic": "aa.listed", "payload": {}}}), flush=True)
            told = json.loads(sys.stdin.readline())
            if told.get("result") is not True:
                raise ToolError("UNHEARD", json.dumps(told))
            return self.tools[name]`, 1)
	i.write(dir+"/handler.py", text)
	i.nacre("exec", "--session", "s", "--project", "p", "--", "ipc", "aa_list", "{}").want(t, 0, `"notes": []`)
	has(t, i.nacre("audit", "show", "s", "--json").stdout, `"plugin.event"`, `"not delivered"`, `aa.listed`)
}

// F-77: the first plugin of a newcomer adds two notes, and nobody is asked.
func TestTheScaffoldAsksNobody(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	i.allowing(`"aa_*"`)
	i.author("aa")
	i.nacre("exec", "--project", "p", "--", "sh", "-c", `ipc aa_add '{"text":"one"}' && ipc aa_add '{"text":"two"}'`).want(t, 0, `"note": 2`)
}
