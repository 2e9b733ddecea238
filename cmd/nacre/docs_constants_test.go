package main_test

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// constants are those of one room's source, by name: also those that no other room may
// use, and those of the plugins, which are programs of their own.
type constants map[string]ast.Expr

func constantsOf(t *testing.T, room string) constants {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", room, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no source: %v", room, err)
	}
	found := constants{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if general, ok := d.(*ast.GenDecl); ok && general.Tok == token.CONST {
				found.take(general)
			}
		}
	}
	return found
}

func (c constants) take(d *ast.GenDecl) {
	for _, s := range d.Specs {
		if spec, ok := s.(*ast.ValueSpec); ok && len(spec.Values) == len(spec.Names) {
			for i, name := range spec.Names {
				c[name.Name] = spec.Values[i]
			}
		}
	}
}

// value works out a constant of numbers, names of its room and units of time.
func (c constants) value(e ast.Expr) constant.Value {
	switch e := e.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(e.Value, e.Kind, 0)
	case *ast.ParenExpr:
		return c.value(e.X)
	case *ast.Ident:
		if of, ok := c[e.Name]; ok {
			return c.value(of)
		}
	case *ast.SelectorExpr:
		units := map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}
		if unit, ok := units[e.Sel.Name]; ok {
			return constant.MakeInt64(int64(unit))
		}
	case *ast.BinaryExpr:
		x, y := c.value(e.X), c.value(e.Y)
		if shift, exact := constant.Uint64Val(y); e.Op == token.SHL && exact {
			return constant.Shift(x, token.SHL, uint(shift))
		}
		return constant.BinaryOp(x, e.Op, y)
	}
	return constant.MakeUnknown()
}

// roomsOf are the constants of rooms, once they were read.
type roomsOf map[string]constants

// number works out a constant, room.name, or a sum or a product of two.
func (r roomsOf) number(t *testing.T, what string) int64 {
	t.Helper()
	if a, b, found := strings.Cut(what, "+"); found {
		return r.number(t, a) + r.number(t, b)
	}
	if a, b, found := strings.Cut(what, "*"); found {
		return r.number(t, a) * r.number(t, b)
	}
	dot := strings.LastIndex(what, ".")
	room, name := what[:dot], what[dot+1:]
	if r[room] == nil {
		r[room] = constantsOf(t, room)
	}
	of, known := r[room][name]
	if !known {
		t.Errorf("%s has no constant %s any more", room, name)
		return 0
	}
	n, exact := constant.Int64Val(r[room].value(of))
	if !exact {
		t.Errorf("%s.%s is no number that can be worked out", room, name)
	}
	return n
}

// spelled is a number as a page writes it, of room.name:form. Without a form it is a
// plain one.
func (r roomsOf) spelled(t *testing.T, what string) string {
	t.Helper()
	what, form, _ := strings.Cut(what, ":")
	n := r.number(t, what)
	switch form {
	case "size":
		return binary(n)
	case "time":
		return span(time.Duration(n))
	case "seconds":
		return strconv.FormatFloat(time.Duration(n).Seconds(), 'f', -1, 64)
	case "minutes":
		return strconv.FormatFloat(time.Duration(n).Minutes(), 'f', -1, 64)
	case "days":
		return strconv.FormatInt(n/int64(24*time.Hour), 10)
	case "hours":
		return strconv.FormatFloat(time.Duration(n).Hours(), 'f', -1, 64)
	case "thousands":
		return thousands(int(n))
	case "sixtieth":
		return strconv.FormatInt(n/60, 10) // minutes of seconds
	case "half":
		return binary(n / 2)
	}
	return strconv.FormatInt(n, 10)
}

// Docs that promise: what the pages say of limits that no other room may use, or that are a
// plugin's, is what the source holds. Each {room.name:form} stands for the number itself.
func TestConstantsOfThePagesAreThoseOfTheSource(t *testing.T) {
	t.Parallel()
	rooms, pages := roomsOf{}, constantSentences()
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		text := strings.ReplaceAll(page(t, filepath.Join("docs", name)), "\n", " ")
		for _, sentence := range pages[name] {
			want := rooms.sentence(t, sentence)
			if !strings.Contains(text, want) {
				t.Errorf("docs/%s does not say %q, which the source holds: %s", name, want, sentence)
			}
		}
	}
}

// constantSentences are those sentences, by page.
func constantSentences() map[string][]string {
	return map[string][]string{
		"policy.md":       {"a justification of {policy.MinJustification} characters"},
		"events.md":       {"| {internal/bus.MaxSubscriptions}, {internal/bus.maxWanted} bytes |"},
		"audit-format.md": {"at most {audit.MaxDetail:thousands} canonical bytes", "`public_key`. At most {audit.maxHead:thousands} bytes."},
		"agents.md": {
			"the time limit is {assembly.agentTime:hours} h", "At most {internal/ports.MaxConnections} connections are open at once",
			"arguments of more than {internal/approval.maxArguments:size} whole", "JSON objects are kept, at most {internal/home.maxLog:size}.",
			"takes {internal/config.DefaultHome:size} at most", "the connection waits up to {internal/config.DefaultHold:seconds} s",
		},
		"brains.md": {
			"(at most {internal/brain/agent.maxAsked:sixtieth} minutes), or {internal/brain/agent.firstWait:seconds} s and doubling", "it takes over {internal/hooks.Timeout} seconds",
			"lines up to {internal/brain.MaxLine:size} pass",
			"({internal/brain/agent.defaultShellTime} s unless the model asks for more, 1 hour at most)",
			"{internal/brain/agent.maxFound} lines at most. Binary files and those over {internal/brain/agent.maxSearched:size} are",
			"the first and the last {internal/brain/agent.maxShown:half}.", "begun by using `read`: {internal/brain/agent.maxProjectText:size} of each",
			"silence for {internal/brain/agent.idle:minutes} minutes | asked again, {internal/brain/agent.attempts} times in all",
			"asked to go on, {internal/brain/agent.maxGoOn} times", "| {internal/brain/agent.defaultTurns} answers (`--max-turns`), 50 million tokens, {internal/brain/agent.defaultTime:hours} hours |",
		},
		"bug-reports.md": {"An issue has at most {plugins/bug_report.maxBody:thousands} bytes"},
		"capabilities.md": {
			"over {internal/verify.DefaultMaxFileLines} lines (", "the {internal/verify.DefaultMaxFunctionLines} lines are asked",
			"for {internal/fetch.keepPackages:days} days after it was used last", "more than {internal/gate.DefaultMaxDeletes} files (`max-deletes`)",
		},
		"channels.md": {
			"up to {plugins/slack.maxPages*plugins/slack.pageSize} messages of each", "up to {internal/chat.maxFiles} files of a message, each of at most {internal/chat.maxFile:size}, in parts of {internal/chat.maxPart:size}", "{plugin.MaxFileBytes:size} at Slack", "the last {plugins/local.maxHistory} lines of a sender", "the next try waits 1 to {internal/chat.LongPause:time}, or as long as Slack", "the next try waits 1 to {internal/chat.LongPause:time}, or as long as Discord", "it is tried again every {plugins/slack.disabled:minutes} minutes", "such as for the {internal/pluginhost.maxChannelMinute} messages a minute of all hooks",
			"at most {plugins/local.maxBody} characters", "sends at most {plugins/local.maxPerMinute} messages a minute, and {plugins/local.maxClients} connections are open at once",
			"have {internal/pluginhost.maxChannelMinute} messages a minute", "given up within {plugins/telegram.patience:time};",
			"tried again after 1 to {internal/chat.LongPause:time}", "read anew every {internal/chat.RevokedPause:minutes} minutes",
			"older than {internal/chat.commandAge:minutes} minutes does nothing", "in the {internal/chat.maxHeard} conversations and threads",
			"is given up within {plugins/slack.patience:time};", "is given up within {plugins/discord.patience:time}.",
			"# at least {plugins/webhook.minSecret} bytes", "older than {plugins/webhook.window:minutes} minutes or ahead",
			"too slow ({plugins/webhook.requestTime:time}), a body over {plugins/webhook.maxBody:size}, headers over {plugins/webhook.maxHead:size}",
			"more than {plugins/webhook.perMinute} messages of one hook", "A body of more than {plugins/webhook.maxText} characters is cut",
		},
		"children.md": {"waits for up to {internal/intrinsic.MaxWait:time}"},
		"credentials.md": {
			"one of more than {internal/egress/gitwire.maxCommands:size} of commands", "in {internal/egress/gitwire.maxHistory:size} of it at most", "the token ends within {internal/lease/oauth.margin:minutes} minutes", "A lease lasts `ttl`, {internal/lease.DefaultTTL:minutes} minutes to an hour",
			"bodies of at most {internal/egress.maxSigned:size}", "longer than {internal/lease.commandTimeout:time}, more than {internal/lease.maxValue:size}",
			"slower than {internal/lease/keystore.patience:time}", "`ttl` ({internal/lease.DefaultTTL:time} unless you say otherwise)",
			"an answer is waited for {internal/lease/issuer.patience:time}, and clocks that are more than {internal/lease/issuer.maxSkew:time} apart",
			"every {internal/leasing.sweepEvery:minutes} minutes while it holds",
		},
		"files.md": {
			"| {plugins/files.maxListed} entries an answer, {plugins/files.maxFolder:thousands} of one folder, {plugins/files.maxVisited:thousands} in all |",
			"| {plugins/files.maxWindow:size} an answer |",
			"| {plugins/files.maxMatches} matches; files up to {plugins/files.maxFileBytes:size}, {plugins/files.maxSearched:size} in all; {plugins/files.maxLine:size} of a line; {plugins/files.maxTime:time} |",
			"is given | {plugins/files.maxContent:size} |", "stands | files up to {plugins/files.maxEdited:size} |",
		},
		"git.md": {"Git takes the {internal/gitdir.maxKnown:thousands} first of your refs"},
		"hooks.md": {
			"blocked after {internal/hooks.Deadline:time}", "the agent's limit of {internal/hooks.Timeout} s",
		},
		"http-fetch.md": {
			"at most {plugins/http_fetch.maxContent:size}; {plugins/http_fetch.maxBase64:size} in base64, {plugins/http_fetch.maxJSONText:size} as JSON",
			"At most {plugins/http_fetch.maxBody:size} of a page are read", "a fetch takes at most {plugins/http_fetch.maxTime:time}.",
		},
		"learn.md": {"stands for {internal/learn.DefaultTime:days} days, or for what `--for` says, at most {internal/learned.MaxTime:days} days"},
		"life.md":  {"in {internal/experience.maxChars:thousands} characters", "for at most {internal/graduation.MaxTime:days} days"},
		"memory.md": {
			"{internal/memory.embedBatch*internal/memory.embedBatches} entries a search",
			"entries, {internal/memory.maxImportBytes:size}.", "a principal do {internal/memory.changesPerMinute} of each a minute",
			"Beyond {internal/memory.maxIndexed:thousands} entries", "From {internal/memory.leastKept:thousands} entries on",
		},
		"models.md": {
			"where less than {internal/model.minOutput:thousands} tokens of output are left", "that a vendor guarantees: {internal/model.searchResultTokens:thousands} tokens",
			"locked for more than {internal/model.lockWait:seconds} seconds", "Journals are kept for {internal/model.keptDays} days",
		},
		"operators.md": {"**Approve exactly this for {internal/person.MaxRemote:time}**", "Of one session at most {internal/approval.maxRefused}", "of strangers at most {internal/cockpit.maxStrangers} in a minute", "shown a code of {internal/person.CodeLength} characters"},
		"plugin-install.md": {
			"more than {internal/install.maxFiles:thousands} files, a file of more than {internal/install.maxFile:size} and more than {internal/install.maxFolder:size} in all",
		},
		"plugins.md": {
			"| null, within {internal/pluginhost.verifyLimit:time}, or an error",
			"{internal/pluginhost.maxStderr:size} since it was kept before", "every {internal/cockpit.chatAgain:seconds} seconds while the question waits",
			"More than {internal/pluginhost.maxChannelMinute} messages that a route takes, or {internal/pluginhost.maxCallsMinute:thousands} calls of all kinds, in a minute are no fault", "more than {kernel.MaxFiles} files or {plugin.MaxFiles:size} in one call",
			"in all, up to {plugin.MaxFileBytes} bytes: the handler", "| {plugin.MaxFiles:size}, which comes with the call", "in base64, of at most {plugin.FilePart:size}. From",
			"{plugin.MaxEvent:size}. Source and group are set by the host",
		},
		"recording.md": {
			"| `path:line:text`, {internal/brain/agent.maxFound} lines at most |",
			"at most {internal/brain/agent.maxRedirects} redirects, {internal/brain/agent.fetchTime:seconds} s, {internal/brain/agent.maxFetchRead:size}.",
			"and the last {internal/brain/agent.maxOutput:half} are kept",
		},
		"reminders.md": {"for {plugins/reminders.maxReminders:thousands} reminders in {plugins/reminders.maxLists} lists a group, in files of at most {plugins/reminders.maxCalendar:size}"},
		"runs.md":      {"without secrets, up to {internal/eventlog.MaxBytes:size}", "A question waits for {cmd/nacre/internal/workcmd.detachedPatience:hours} hours"},
		"scale.md": {
			"does not answer within {internal/approval.patience:seconds} s",
			"A record waits up to {internal/machines.patience:seconds} s",
			"It moves within {internal/node.Length+internal/node.beat:seconds} s",
			"another node looks every {internal/node.beat:seconds} s, so within {internal/node.Length+internal/node.beat:seconds} s declares",
			"beyond the commit that it began from, {internal/task.MaxPack:size} at most", "of more than {internal/memory.maxIndexed:thousands} entries",
			"says that traces are left after {internal/memory.scrubPatience:seconds} s",
			"holds a lease of {internal/node.Length:seconds} s", "renews it every {internal/node.beat:seconds} s",
		},
		"schedules.md": {
			"or after {internal/converse.gateWall:seconds} seconds | `failed`",
			"more than {internal/schedule.Grace:minutes} minutes after it was due", "printed ({internal/converse.maxFound:size})",
		},
		"serve.md": {"{internal/dispatch.DefaultWaiting} messages wait"},
	}
}

// sentence is one with each {room.name:form} in it spelled.
func (r roomsOf) sentence(t *testing.T, sentence string) string {
	t.Helper()
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(sentence, "{")
		fmt.Fprint(&b, before)
		if !found {
			return b.String()
		}
		what, after, _ := strings.Cut(rest, "}")
		fmt.Fprint(&b, r.spelled(t, what))
		sentence = after
	}
}
