package main_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// F-75: how long a plugin has, and how long a call waits for it, is the operator's to
// say, within bounds.
func TestTheTimesOfPlugins(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	i.allowing(`"aa_*"`)
	dir := i.author("aa")
	i.handling(dir, "        import time; time.sleep(2)\n")
	config := func(limits string) {
		i.write("home/.config/nacre/config.toml", "[groups.main]\ntools = [\"aa_*\"]\n[limits]\n"+limits)
	}
	list := []string{"exec", "--project", "p", "--", "ipc", "aa_list", "{}"}
	config("handler_seconds = 1\n")
	i.nacre(list...).want(t, 1, "PLUGIN_TIMEOUT")
	config("handler_seconds = 60\nipc_seconds = 61\ndrain_seconds = 1\nshutdown_seconds = 5\n")
	i.nacre(list...).want(t, 0, `"notes"`)
	for limits, want := range map[string]string{
		"handler_seconds = 3601\n":                   "handler_seconds = 3601: use 1 to 3600",
		"drain_seconds = -1\n":                       "drain_seconds = -1: use 1 to 3600",
		"shutdown_seconds = 601\n":                   "shutdown_seconds = 601: use 1 to 600",
		"ipc_seconds = 7201\n":                       "ipc_seconds = 7201: use 1 to 7200",
		"ipc_seconds = 30\n":                         "use more than the 30 s that a handler has",
		"handler_seconds = 100\nipc_seconds = 100\n": "use more than the 100 s",
	} {
		config(limits)
		i.nacre("plugin", "list").want(t, 2, want)
	}
}

// K-33: each tool has its own time, by its manifest, and by the operator's word before that. The
// agent waits for the slowest, and the record of one that is ended says why.
func TestEachToolHasItsOwnTime(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	dir := i.author("aa")
	i.handling(dir, "        import time; time.sleep(3)\n")
	manifest := dir + "/manifest.json"
	plain := fileText(i.work + "/" + manifest)
	declare := func(seconds string) {
		i.write(manifest, strings.Replace(plain, `"name": "aa_list",`, `"name": "aa_list", "deadline_seconds": `+seconds+`,`, 1))
	}
	config := func(more string) {
		i.write("home/.config/nacre/config.toml", "[groups.main]\ntools = [\"aa_*\"]\n"+more)
	}
	calls := func(session string) result {
		return i.nacre("exec", "-q", "--session", session, "--project", "p", "--", "sh", "-c", `ipc aa_add '{"text":"milk"}'; ipc aa_list '{}'`)
	}
	for name, c := range map[string]struct{ manifest, config, says, shown string }{
		"the author's, shorter":                {"1", "", "aa did not respond within 1s", "within 1 s"},
		"the author's, longer":                 {"60", "[limits]\nhandler_seconds = 1\n", `"notes"`, "within 60 s"},
		"the operator's before the author's":   {"60", "[tools.aa_list]\ndeadline_seconds = 1\n", "aa did not respond within 1s", "within 1 s"},
		"the operator's where he says a lot":   {"1", "[limits]\nhandler_seconds = 1\n[tools.aa_list]\ndeadline_seconds = 3600\n", `"notes"`, "within 3600 s"},
		"the author's, beyond the agent's own": {"60", "[limits]\nhandler_seconds = 1\nipc_seconds = 2\n", "aa did not respond within 1s", "within 1 s"},
	} {
		declare(c.manifest)
		config(c.config)
		i.nacre("plugin", "show", "aa").want(t, 0, c.shown)
		session := strings.NewReplacer(" ", "-", ",", "", "'", "").Replace(name)
		r := calls(session)
		if has(t, r.stdout+r.stderr, c.says, `"added"`); strings.Contains(c.says, "respond") {
			has(t, r.stdout+r.stderr, "PLUGIN_TIMEOUT")
			has(t, i.nacre("audit", "show", session, "--json").stdout, `"reason":"PLUGIN_TIMEOUT"`, `"cause":"deadline"`)
		}
	}
	declare("0")
	i.nacre("plugin", "validate", i.work+"/"+dir).want(t, 1, "deadline_seconds", "from 1 to 3600")
	declare("1")
	for wrong, want := range map[string]string{
		"[tools.aa_list]\ndeadline_seconds = 3601\n":                           "[tools.aa_list]: deadline_seconds = 3601: use 1 to 3600",
		"[tools.aa_list]\ndeadline_seconds = -1\n":                             "deadline_seconds = -1: use 1 to 3600",
		"[limits]\nipc_seconds = 40\n[tools.aa_list]\ndeadline_seconds = 40\n": "deadline_seconds = 40: use 1 to 39, and less than ipc_seconds",
	} {
		config(wrong)
		i.nacre("plugin", "list").want(t, 2, want)
	}
}

// F-76: what holds for a tool's calls is shown: class, question, rate and label.
func TestToolsAreShownWithTheirRules(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.author("aa")
	i.nacre("plugin", "show", "aa").want(t, 0, "aa_add · WRITE · at most 10 in 60 s · each within 30 s · its result is trusted", "aa_list · READ · at most 60 in 60 s · each within 30 s · its result is untrusted")
	i.write("home/.config/nacre/config.toml", "[tools.aa_add]\nsafety_class = \"DESTRUCTIVE\"\nhigh_risk = true\n")
	i.nacre("plugin", "show", "aa").want(t, 0, "aa_add · DESTRUCTIVE · asked each time · at most 2 in 60 s")
}

// F-79: a fresh installation whose groups may use webhook is not warned of the eight
// secrets that nobody needs.
func TestOptionalCredentialsAreNoWarning(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.allowing(`"send_webhook"`)
	r := i.nacre("doctor", "--no-turns")
	hasNo(t, r.stdout, "secret_2", "secret_8")
	has(t, i.nacre("plugin", "show", "webhook").stdout, "secret_8")
}

// F-80, F-81: a handler that is not there is the manifest's fault, found before a start.
func TestAHandlerThatIsNotThere(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	i.allowing(`"aa_*", "bb_*"`)
	i.write("home/.local/share/nacre/plugins/aa/manifest.json", `{"description": "d", "version": "1.0.0", "handler": ["python3", "gone.py"], "provides": {"tools": [{"name": "aa_x", "description": "d", "arguments_schema": {"type": "object", "additionalProperties": false}}]}}`)
	i.write("home/.local/share/nacre/plugins/bb/manifest.json", `{"description": "d", "version": "1.0.0", "provides": {"tools": [{"name": "bb_x", "description": "d", "arguments_schema": {"type": "object", "additionalProperties": false}}]}}`)
	i.write("home/.local/share/nacre/plugins/bb/main.go", "package main\n")
	i.nacre("plugin", "list", "--json").want(t, 0, "gone.py is missing", "go build -o handler")
	i.nacre("exec", "--project", "p", "--", "ipc", "get_session_info", "{}").want(t, 0, `{"name":"aa","category":"CONFIG_ERROR"}`, `{"name":"bb","category":"CONFIG_ERROR"}`, "aa is left out: handler: ", "bb is left out:")
}

// F-83: what was rejected is found among the errors of a session.
func TestRejectionsAreErrors(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	r := i.nacre("exec", "-q", "--project", "p", "--", "sh", "-c", `ipc create_reminder '{"title":"x"}' 2>/dev/null; ipc get_diagnostics '{"filter_outcome":"error"}'`)
	var told struct {
		Result struct{ Events []struct{ Outcome string } }
	}
	if err := json.Unmarshal([]byte(r.stdout), &told); err != nil || len(told.Result.Events) != 1 || told.Result.Events[0].Outcome != "rejected" {
		t.Errorf("have %s%s, %v", r.stdout, r.stderr, err)
	}
}
