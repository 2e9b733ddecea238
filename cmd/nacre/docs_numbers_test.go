package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/account"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/bus"
	"github.com/nacre-dev/nacre/internal/calendar"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/events"
	"github.com/nacre-dev/nacre/internal/gitdir"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/model"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/ports"
	"github.com/nacre-dev/nacre/internal/routing"
	"github.com/nacre-dev/nacre/internal/schedule"
	"github.com/nacre-dev/nacre/kernel"
	"github.com/nacre-dev/nacre/plugin"
	"github.com/nacre-dev/nacre/policy"
)

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// binary is a size as the pages write it.
func binary(n int64) string {
	for _, unit := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n%unit.size == 0 {
			return fmt.Sprintf("%d %s", n/unit.size, unit.name)
		}
	}
	return strconv.FormatInt(n, 10)
}

// span is a time as the pages write it.
func span(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d s", d/time.Second)
}

// rows are the first two columns of all tables of a page that begin with heading.
func rows(t *testing.T, text, heading string) map[string]string {
	t.Helper()
	found := map[string]string{}
	inside := false
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		switch {
		case strings.HasPrefix(line, heading):
			inside = true
		case !strings.HasPrefix(line, "|"):
			inside = false
		case inside && len(cells) > 1 && !strings.HasPrefix(cells[0], "---"):
			found[strings.TrimSpace(cells[0])] = strings.TrimSpace(cells[1])
		}
	}
	if len(found) == 0 {
		t.Fatalf("no table begins with %q", heading)
	}
	return found
}

// F-21, F-76: docs/limits.md has every limit that a program of nacre's holds by default,
// with its number, and no other.
func TestLimitsOfTheDocsAreThoseOfTheProgram(t *testing.T) {
	t.Parallel()
	box := nacre.Limits{}.WithDefaults()
	want := map[string]string{
		"time": span(box.Wall),
		"processes, open files, size of one file": fmt.Sprintf("%d, %d, %s", box.Processes, box.OpenFiles, binary(box.FileSize)),
		"inotify instances and watches":           "a quarter of what the user may have",
		"epoll watches":                           "what leaves this user some",
		"output: stdout and stderr together":      binary(box.Output),
		"memory":                                  binary(box.Memory),
		"CPU":                                     fmt.Sprintf("%d cores, and half the share of what else runs", box.CPU/1000),
		"disk: what is added to what may be written": binary(box.Disk),

		"egress: connections at once":                                 strconv.Itoa(egress.DefaultConnections),
		"egress: connections in all":                                  strconv.Itoa(egress.DefaultTotal),
		"egress: moved, both ways together":                           binary(egress.DefaultBytes),
		"egress: silence of a connection":                             span(egress.DefaultIdle),
		"egress: until a host's first byte":                           span(egress.DefaultFirstByte),
		"egress: until a request's head is whole":                     span(egress.DefaultRequest),
		"egress: size of a request's head":                            binary(egress.DefaultHeader),
		"egress: a connection waits for a person":                     span(config.Config{}.Hold(true)),
		"egress: connections that wait for a person, at once":         strconv.Itoa(egress.DefaultHeld),
		"ports that are published":                                    strconv.Itoa(ports.MaxPublished),
		"connections to published ports at once":                      strconv.Itoa(ports.MaxConnections),
		"calls of a READ tool in a minute":                            strconv.Itoa(policy.ReadRate),
		"calls of a WRITE tool in a minute":                           strconv.Itoa(policy.WriteRate),
		"calls of a DESTRUCTIVE tool in a minute":                     strconv.Itoa(policy.DestructiveRate),
		"a plugin's answer, where its tool has no `deadline_seconds`": span(config.Limits{}.Handler()),
		"a call of a plugin, from the agent's side":                   span(config.Limits{}.IPC(0)),
		"a plugin's end: the answers that it owes":                    span(pluginhost.DefaultDrain),
		"a plugin's end: its own, after that":                         span(pluginhost.DefaultShutdown),
		"results shown to a session, in tokens":                       strconv.Itoa(config.DefaultOutputTokens),
		"a question waits":                                            span(approval.DefaultTTL),
		"a conversation rests":                                        span(config.Serve{}.Idle()),
		"one result: characters shown at once":                        strconv.Itoa(config.DefaultResults().Chars),
		"one result: rows shown at once":                              strconv.Itoa(config.DefaultResults().Rows),
		"one result of an MCP server or of a driver in the program":   fmt.Sprintf("%d MiB", kernel.MaxResult>>20),
		"one result of a plugin":                                      fmt.Sprintf("%d MiB", plugin.MaxResult>>20),
	}
	if policy.RateWindow != time.Minute || policy.ServiceFactor != 10 {
		t.Errorf("the rates are counted for %s, times %d", policy.RateWindow, policy.ServiceFactor)
	}
	have := rows(t, page(t, "docs/limits.md"), "| limit |")
	if !maps.Equal(have, want) {
		for name, value := range want {
			if have[name] != value {
				t.Errorf("docs/limits.md says %q of %q, the program %q", have[name], name, value)
			}
		}
		for name := range have {
			if _, known := want[name]; !known {
				t.Errorf("docs/limits.md has %q, which no limit of the program is held against", name)
			}
		}
	}
}

// M-61: docs/config.md shows every key that config.toml may have, and no other.
func TestKeysOfTheDocsAreThoseOfTheProgram(t *testing.T) {
	t.Parallel()
	keys := config.Keys()
	if len(keys) < 80 {
		t.Fatalf("the program knows %d keys only", len(keys))
	}
	_, rest, _ := strings.Cut(page(t, "docs/config.md"), "```toml\n")
	example, more, found := strings.Cut(rest, "\n```")
	var tables map[string]any
	meta, err := toml.Decode(example, &tables)
	if !found || err != nil {
		t.Fatalf("docs/config.md has no example that can be read: %v", err)
	}
	var shown []string
	for _, key := range meta.Keys() {
		shown = append(shown, key.String())
	}
	for _, key := range keys {
		pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(key), `\*`, `("[^"]+"|[^.]+)`) + "$")
		name := key[strings.LastIndex(key, ".")+1:]
		if name == "*" || strings.HasPrefix(key, "plugins.") || slices.ContainsFunc(shown, pattern.MatchString) {
			continue
		}
		if !strings.Contains(example, "# or "+name) && !strings.Contains(example, name+" = ") && !regexp.MustCompile(`\b`+name+`\b`).MatchString(example+more) {
			t.Errorf("docs/config.md does not name %s", key)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(dir); err != nil {
		t.Errorf("the example does not load, so that it has a key or a value that the program refuses: %v", err)
	}
	holdsTheSchema(t, tables, keys)
	limits := config.EgressLimits{Connections: egress.DefaultConnections, ConnectionsTotal: egress.DefaultTotal, MiB: egress.DefaultBytes >> 20, IdleSeconds: int64(egress.DefaultIdle / time.Second)}
	box := nacre.Limits{}.WithDefaults()
	for _, line := range []string{
		fmt.Sprintf("ask_seconds = %d ", int(approval.DefaultTTL.Seconds())), fmt.Sprintf("output_tokens = %d ", config.DefaultOutputTokens),
		fmt.Sprintf("connections = %d ", limits.Connections), fmt.Sprintf("connections_total = %d ", limits.ConnectionsTotal),
		fmt.Sprintf("mib = %d ", limits.MiB), fmt.Sprintf("idle_seconds = %d ", limits.IdleSeconds),
		fmt.Sprintf("output_mib = %d ", box.Output>>20), fmt.Sprintf("disk_mib = %d ", box.Disk>>20), fmt.Sprintf("memory_mib = %d ", box.Memory>>20),
		fmt.Sprintf("cpu_millicores = %d ", box.CPU), fmt.Sprintf("idle_seconds = %d ", int(config.Serve{}.Idle().Seconds())),
	} {
		if !strings.Contains(example, "\n"+line) {
			t.Errorf("docs/config.md does not show the default %q", line)
		}
	}
}

// holdsTheSchema says that the schema that nacre config schema prints takes the documented
// example, knows each key and refuses any other.
func holdsTheSchema(t *testing.T, example map[string]any, keys []string) {
	t.Helper()
	have := install(t).nacre("config", "schema")
	have.want(t, 0)
	text, err := jsonschema.UnmarshalJSON(strings.NewReader(have.stdout))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("config.json", text); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("config.json")
	if err != nil {
		t.Fatal(err)
	}
	plain, err := json.Marshal(example)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(plain))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(value); err != nil {
		t.Errorf("the schema refuses the documented example: %v", err)
	}
	for _, key := range keys {
		if name := key[strings.LastIndex(key, ".")+1:]; name != "*" && !strings.Contains(have.stdout, strconv.Quote(name)) {
			t.Errorf("the schema does not know %s", key)
		}
	}
	for name, wrong := range map[string]map[string]any{
		"an unknown key":   {"egress": map[string]any{"alow": []any{"x"}}},
		"another type":     {"ask_seconds": "10"},
		"an unknown table": {"egres": map[string]any{}},
	} {
		if schema.Validate(wrong) == nil {
			t.Errorf("the schema takes %s", name)
		}
	}
}

// thousands is a number as the pages write large ones.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// Docs that promise: what a page says of a limit is what the program holds.
func TestNumbersOfThePagesAreThoseOfTheProgram(t *testing.T) {
	t.Parallel()
	for name, sentences := range numberSentences() {
		text := strings.ReplaceAll(page(t, filepath.Join("docs", name)), "\n", " ")
		for _, sentence := range sentences {
			if !strings.Contains(text, sentence) {
				t.Errorf("docs/%s does not say %q, which the program holds", name, sentence)
			}
		}
	}
}

// numberSentences are those, by page.
func numberSentences() map[string][]string {
	git, zmq := gitdir.DefaultLimits(), bus.DefaultLimits()
	return map[string][]string{
		"schedules.md": {
			fmt.Sprintf("| prompt | %s bytes |", thousands(schedule.MaxPrompt)), fmt.Sprintf("| gate | %s bytes |", thousands(schedule.MaxGate)),
			fmt.Sprintf("| schedules of a group | %d, %d of them made by agents |", schedule.MaxSchedules, schedule.MaxAgents),
			fmt.Sprintf("| `--every` | a duration of %d minute to %d days", int(calendar.MinInterval.Minutes()), int(calendar.MaxInterval.Hours()/24)),
			fmt.Sprintf("at most %d of them beside the operator's, %d in all", schedule.MaxAgents, schedule.MaxSchedules),
		},
		"memory.md": {
			fmt.Sprintf("before it starts: %d entries, %s characters", memory.DefaultBriefEntries, thousands(memory.DefaultBriefChars)),
			fmt.Sprintf("at most %s entries", thousands(memory.MaxImport)),
			fmt.Sprintf("A session may store %d entries, replace %d, delete %d and link %d", memory.MaxStores, memory.MaxSupersedes, memory.MaxDeletes, memory.MaxLinks),
			fmt.Sprintf("max_brief_entries = %d ", memory.DefaultBriefEntries), fmt.Sprintf("max_brief_chars = %d ", memory.DefaultBriefChars),
			fmt.Sprintf("purge_superseded_days = %d ", int(memory.DefaultPurge.Hours()/24)), fmt.Sprintf("older than %d days", int(memory.DefaultPurge.Hours()/24)),
		},
		"brains.md": {fmt.Sprintf("The sandbox's own time limit (%d hour unless set)", int(nacre.Limits{}.WithDefaults().Wall.Hours()))},
		"git.md":    {fmt.Sprintf("it may have %s, %d branches and %d minutes", binary(git.Pack), git.Refs, int(git.Time.Minutes()))},
		"plugins.md": {
			fmt.Sprintf("channel_ticket}` | anything, within %s |", span(pluginhost.DefaultInit)),
			fmt.Sprintf("JSON, at most %s, within", binary(plugin.MaxResult)), fmt.Sprintf("more than %d files", kernel.MaxFiles),
			fmt.Sprintf("answered first, for at most %s", span(pluginhost.DefaultDrain)),
			fmt.Sprintf("| `shutdown` | anything, within %s", span(pluginhost.DefaultShutdown)),
		},
		"plugin-authors.md": {
			fmt.Sprintf("| `start` | answer `initialize` within %s", span(pluginhost.DefaultInit)),
			fmt.Sprintf("a result of at most %s", binary(plugin.MaxResult)), fmt.Sprintf("| `shutdown` | answer and end within %s |", span(pluginhost.DefaultShutdown)),
		},
		"agents.md": {fmt.Sprintf("for whose answer the connection waits up to %s |", span(config.DefaultHold))},
		"audit-format.md": {
			fmt.Sprintf("One line of at most %s bytes", thousands(audit.MaxLine)), fmt.Sprintf("1–%s bytes of UTF-8", thousands(audit.MaxText)),
			fmt.Sprintf("like a head, of at most %s", binary(audit.MaxReceipt)),
		},
		"events.md": {
			fmt.Sprintf("`a-z 0-9 _ -`, %d bytes at most", events.MaxTopic), fmt.Sprintf("an object of at most %s, and", binary(bus.MaxPayload)),
			fmt.Sprintf("others that are still greeting | %d each |", zmq.Peers), fmt.Sprintf("bytes that wait for one subscriber | %s;", binary(int64(zmq.HighWater))),
			fmt.Sprintf("a message once begun, a write | %s, %s, %s; then", span(zmq.Handshake), span(zmq.Message), span(zmq.Write)),
			fmt.Sprintf("| the rest at the end | %s |", span(zmq.Drain)),
			fmt.Sprintf("| `sender` | 1–%d characters", routing.MaxSender), fmt.Sprintf("| `body` | up to %d characters", routing.MaxBody),
			fmt.Sprintf("an object, %s and %d levels at most", binary(routing.MaxMetadata), routing.MaxMetadataDepth), fmt.Sprintf("`attachments` up to %d objects", routing.MaxAttachments),
		},
		"channels.md": {
			fmt.Sprintf("has at most %d characters", routing.MaxBody), fmt.Sprintf("body of more than %d characters is cut", routing.MaxBody),
		},
		"recording.md": {fmt.Sprintf("%s and %s choices at most", binary(brain.MaxRecording), thousands(brain.MaxChoices))},
		"roles.md":     {fmt.Sprintf("at most %s lines and %s, a body %s", thousands(atom.MaxLines), binary(atom.MaxFile), binary(atom.MaxBody))},
		"running-claude.md": {
			fmt.Sprintf("bodies over %s", binary(model.DefaultBody)),
		},
		"receipts.md": {fmt.Sprintf("records of more than %s", binary(account.MaxFile/2))},
		"runs.md":     {fmt.Sprintf("while the session lasts, up to %s", span(kernel.MaxStanding)), fmt.Sprintf("is not asked again, for up to %s", span(kernel.MaxStanding))},
	}
}

// othersNumbers are numbers of the pages that no constant stands for, by page. They are examples,
// what was measured, what other programs and services do, and what a form or a setting spells out.
func othersNumbers() map[string][]string {
	return map[string][]string{
		"audit-format.md": {"The line's last 155 bytes are always", "and 16 levels of objects and arrays", "record_hash as 32 bytes"},
		"brains.md":       {"one static file of 7 MB", "at least 16,000 tokens at once"},
		"channels.md":     {"Telegram keeps for 24 hours", "a sign of life every 8 s", "50 MB at Telegram", "and 10 MiB at Discord"},
		"credentials.md":  {"GitHub itself ends it after 1 h", "AWS itself ends the session after 15 min"},
		"git.md":          {"within 256 MiB of memory"},
		"life.md":         {"a person unlocks it for 30 days"},
		"memory.md":       {"about 1 KB for each entry"},
		"plugins.md":      {"with at most 2,000 bytes of its text"},
		"runs.md":         {"the same risky values, for 15 minutes", "exactly the same arguments, for 15 minutes", "with any arguments, for 15 minutes"},
		"scale.md":        {"| 2.3 s | 2.3 s | 3.0 s |", "| 2.3 s | 2.3 s | 2.5 s |", "| 2.3 s | 2.3 s | 2.7 s |", "All 9 messages", "is not listed any more after 10 s", "while 1,500 messages come in"},
	}
}

// measured are pages of what was measured, and those whose numbers other tests hold.
const measured = " compatibility.md dependencies.md demo.md injection.md limits.md performance.md security-matrix.md "

// Docs that promise: each number with a unit on a page is one that these tests hold against
// the program, or is named above. A new one is put into a sentence of one of the tables.
func TestEveryNumberOfThePagesIsHeld(t *testing.T) {
	t.Parallel()
	number := regexp.MustCompile(`\d[\d,]*(?:\.\d+)? (?:[KMG]i?B|s|min|h|seconds?|minutes?|hours?|days?|bytes|characters|entries|files|messages|times|connections|levels|lines|branches|matches|redirects|tokens)\b`)
	part := regexp.MustCompile(`[\w.:-]$`) // of a version, a name or a time
	code := regexp.MustCompile("(?ms)^```.*?^```")
	constants, numbers, others, rooms := constantSentences(), numberSentences(), othersNumbers(), roomsOf{}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) < 30 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	held := 0
	for _, path := range pages {
		name := filepath.Base(path)
		if strings.Contains(measured, " "+name+" ") {
			continue
		}
		text := strings.ReplaceAll(code.ReplaceAllString(page(t, filepath.Join("docs", name)), ""), "\n", " ")
		for _, sentence := range constants[name] {
			numbers[name] = append(numbers[name], rooms.sentence(t, sentence))
		}
		covered := covers(text, numbers[name])
		for _, sentence := range others[name] {
			if !strings.Contains(text, sentence) {
				t.Errorf("docs/%s does not say %q any more", name, sentence)
			}
		}
		known := covers(text, others[name])
		for _, at := range number.FindAllStringIndex(text, -1) {
			switch {
			case covered[at[0]]:
				held++
			case !known[at[0]] && !part.MatchString(text[:at[0]]):
				t.Errorf("docs/%s: %q is held against nothing", name, text[max(0, at[0]-50):min(len(text), at[1]+20)])
			}
		}
	}
	if held < 100 {
		t.Errorf("%d numbers are held only", held)
	}
}

// covers tells which bytes of a text stand in one of the sentences.
func covers(text string, sentences []string) []bool {
	covered := make([]bool, len(text))
	for _, sentence := range sentences {
		for _, at := range regexp.MustCompile(regexp.QuoteMeta(sentence)).FindAllStringIndex(text, -1) {
			for k := at[0]; k < at[1]; k++ {
				covered[k] = true
			}
		}
	}
	return covered
}

// M-01: the help and every page name the exit codes that there are, and docs/commands.md
// and the help all of them.
func TestExitCodesOfTheDocsAreThoseOfTheProgram(t *testing.T) {
	t.Parallel()
	codes := []int{
		command.ExitOK, command.ExitFailed, command.ExitUsage, command.ExitNotReady, command.ExitDoctor,
		command.ExitTimeout, command.ExitExecFailed, command.ExitInterrupted,
	}
	var told []int
	for cell := range rows(t, page(t, "docs/commands.md"), "| exit code |") {
		for _, text := range strings.Split(cell, ", ") {
			code, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			told = append(told, code)
		}
	}
	if slices.Sort(told); !slices.Equal(told, codes) {
		t.Errorf("docs/commands.md has the exit codes %v, the program %v", told, codes)
	}
	_, help, found := strings.Cut(install(t).nacre("--help").stdout, "Exit codes: ")
	for _, code := range codes {
		if !found || !regexp.MustCompile(fmt.Sprintf(`\b%d\b`, code)).MatchString(help) {
			t.Errorf("nacre --help does not name the exit code %d", code)
		}
	}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) < 30 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	mentioned := 0
	for _, name := range pages {
		text := page(t, filepath.Join("docs", filepath.Base(name)))
		for _, match := range regexp.MustCompile(`(?i)\bexit (?:code )?(?:is )?(\d+)\b`).FindAllStringSubmatchIndex(text, -1) {
			if before := text[max(0, match[0]-6):match[0]]; strings.Contains(before, "·") {
				continue // what a command of a recording ended with
			}
			mentioned++
			if code, err := strconv.Atoi(text[match[2]:match[3]]); err != nil || !slices.Contains(codes, code) {
				t.Errorf("%s: %q is no exit code of nacre", name, text[match[0]:match[1]])
			}
		}
	}
	if mentioned < 10 {
		t.Errorf("the pages mention %d exit codes only", mentioned)
	}
}

// F-21: the operator sets the limits of a session's connections, within bounds.
func TestTheLimitsOfEgressAreTheOperators(t *testing.T) {
	t.Parallel()
	i, site := install(t), newFetchSite(t, map[string]string{"/a": "a"})
	twice := []string{
		"exec", "--egress", "packages.test:80/http", "--", "sh", "-c",
		"for n in 1 2; do curl -s -o /dev/null -w \"$n %{http_code}\\n\" http://packages.test/a; done; true",
	}
	file := "home/.config/nacre/config.toml"
	i.write(file, site.egress)
	i.nacre(twice...).want(t, 0, "1 200\n", "2 200\n")
	i.write(file, site.egress+"[egress.limits]\nconnections_total = 1\n")
	have := i.nacre(twice...)
	have.want(t, 0, "1 200\n", "made all the connections that it may", "connections_total")
	if strings.Contains(have.stdout, "2 200") {
		t.Errorf("a second connection went through:\n%s%s", have.stdout, have.stderr)
	}
	for key, value := range map[string]string{"connections": "-1", "connections_total": "10000001", "mib": "67108865", "idle_seconds": "86401"} {
		i.write(file, "[egress.limits]\n"+key+" = "+value+"\n")
		i.nacre("sessions", "list").want(t, 2, "[egress.limits] "+key+" = "+value+": use 1 to ")
	}
}
