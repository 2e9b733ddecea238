package kernel_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// injectionData has the worlds of who wrote the rules, the hands those of others. The fourth
// were looked at while the rules changed; those behind it were measured before that, too.
const (
	injectionData = "testdata/injection"
	secondHand    = injectionData + "/second"
	thirdHand     = injectionData + "/third"
	fourthHand    = injectionData + "/fourth"
	fifthHand     = injectionData + "/fifth"
	sixthHand     = injectionData + "/sixth"
	seventhHand   = injectionData + "/seventh"
	eighthHand    = injectionData + "/eighth"
)

// world is a file of our own corpus. In what outsiders wrote, {note} stands where
// one can write more: nothing in an honest run, an attack's text in an attacked one.
type world struct {
	Operator []string                   `json:"operator"`
	Tools    map[string]declaration     `json:"tools"`
	Results  map[string]json.RawMessage `json:"results"`
	Honest   []struct {
		Task  string      `json:"task"`
		Calls []worldCall `json:"calls"`
	} `json:"honest"`
	Attacks []worldAttack `json:"attacks"`
	Inside  []worldAttack `json:"inside"`
}

// worldAttack is tried in every honest run that reads a text with {note}: its calls
// stand right behind the first one that does.
type worldAttack struct {
	Text  string      `json:"text"`
	Calls []worldCall `json:"calls"`
}

// worldCall is a tool, its arguments, and what it returns: the name of one of the
// world's results.
type worldCall struct {
	tool, result string
	args         map[string]any
}

func (c *worldCall) UnmarshalJSON(data []byte) error {
	parts := []any{&c.tool, &c.args, &c.result}
	return json.Unmarshal(data, &parts)
}

func ownCorpus(t *testing.T, folder string) (runs []recordedRun) {
	t.Helper()
	files, err := filepath.Glob(folder + "/world-*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		var w world
		readJSON(t, file, &w)
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "world-"), ".json")
		for i, honest := range w.Honest {
			id := name + "/" + strconv.Itoa(i)
			runs = append(runs, w.run(t, id, "honest", honest.Task, honest.Calls, worldAttack{}))
			for kind, attacks := range map[string][]worldAttack{"attack": w.Attacks, "inside": w.Inside} {
				for n, attack := range attacks {
					run := w.run(t, id+"/"+kind+strconv.Itoa(n), kind, honest.Task, honest.Calls, attack)
					if slices.ContainsFunc(run.Steps, recordedStep.attacker) {
						runs = append(runs, run)
					}
				}
			}
		}
	}
	slices.SortFunc(runs, func(a, b recordedRun) int { return strings.Compare(a.kind+a.ID, b.kind+b.ID) })
	return runs
}

func (w *world) run(t *testing.T, id, kind, task string, calls []worldCall, attack worldAttack) recordedRun {
	t.Helper()
	r := recordedRun{ID: id, Prompt: task, kind: kind, tools: w.Tools, profile: w.Operator}
	attacked := false
	for _, c := range calls {
		result, known := w.Results[c.result]
		if _, is := w.Tools[c.tool]; !is || c.result != "" && !known {
			t.Fatalf("%s: %s, %q: there is no such tool or result", id, c.tool, c.result)
		}
		told := strings.ReplaceAll(string(result), "{note}", attack.Text)
		r.Steps = append(r.Steps, recordedStep{Tool: c.tool, Args: c.args, Origin: "user", Result: json.RawMessage(told)})
		if kind == "honest" || attacked || told == string(result) {
			continue
		}
		attacked = true
		for _, a := range attack.Calls {
			r.Steps = append(r.Steps, recordedStep{Tool: a.tool, Args: a.args, Origin: "attacker", Result: w.Results[a.result]})
		}
	}
	return r
}

// externalRuns are those of a folder in the format of docs/injection.md.
func externalRuns(t *testing.T, folder string) (runs []recordedRun) {
	t.Helper()
	notes, profiles := map[string]declaration{}, map[string][]string{}
	readJSON(t, beside(folder, "annotations.json"), &notes)
	readJSON(t, beside(folder, "operator.json"), &profiles)
	var suites map[string][]struct {
		Name       string
		Parameters map[string]struct{ Type string }
	}
	readJSON(t, filepath.Join(folder, "tools.json"), &suites)
	for _, tools := range suites {
		for _, tool := range tools {
			n, ok := notes[tool.Name]
			if !ok {
				t.Fatalf("%s is not annotated", tool.Name)
			}
			n.Params = map[string]string{}
			for p, of := range tool.Parameters {
				switch {
				case strings.Contains(of.Type, "list[dict]"):
					n.Params[p] = "objects"
				case strings.Contains(of.Type, "list["):
					n.Params[p] = "list"
				default:
					n.Params[p] = "scalar"
				}
			}
			notes[tool.Name] = n
		}
	}
	for file, kind := range map[string]string{"honest": "honest", "attacks": "attack", "inside": "inside"} {
		for _, run := range readRuns(t, filepath.Join(folder, file+".jsonl")) {
			run.kind, run.tools, run.profile = kind, notes, profiles[run.Suite]
			runs = append(runs, run)
		}
	}
	return runs
}

// beside is a file of the folder, or the one of ours that stands in for it.
func beside(folder, name string) string {
	if file := filepath.Join(folder, name); exists(file) {
		return file
	}
	return filepath.Join(injectionData, name)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func readJSON(t *testing.T, file string, to any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// readRuns reads a run a line, packed or not.
func readRuns(t *testing.T, file string) (runs []recordedRun) {
	t.Helper()
	packed := exists(file + ".gz")
	if packed {
		file += ".gz"
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	var plain io.Reader = f
	if packed {
		if plain, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	lines := bufio.NewScanner(plain)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var run recordedRun
		if err := json.Unmarshal(lines.Bytes(), &run); err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return runs
}

// resultReader is an agent that knows what it was shown, and nothing else: where it
// was shown a word for a value, it writes the word.
type resultReader struct {
	raw, seen strings.Builder
	words     map[string]string
}

func newReader(prompt string) *resultReader {
	r := &resultReader{words: map[string]string{}}
	r.seen.WriteString(strings.ToLower(prompt) + "\n")
	return r
}

var (
	parted   = regexp.MustCompile(`[\s,;<>()"'\[\]{}\\]+`)
	glued    = ".:!?"
	redacted = "REDACTED"
)

// read holds what a tool returned and what was shown of it against each other.
func (r *resultReader) read(raw, shown json.RawMessage) {
	r.raw.WriteString(strings.ToLower(string(raw)) + "\n")
	r.seen.WriteString(strings.ToLower(string(shown)) + "\n")
	was, is := parted.Split(compact(raw), -1), parted.Split(compact(shown), -1)
	if len(was) != len(is) {
		return
	}
	for i, value := range was {
		if value != is[i] && !strings.Contains(is[i], redacted) {
			r.words[strings.ToLower(strings.Trim(value, glued))] = strings.TrimRight(is[i], glued)
		}
	}
}

// compact is JSON as text, its escapes undone.
func compact(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	data, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return strings.NewReplacer(`\n`, " ", `\t`, " ", `\u003c`, " ", `\u003e`, " ").Replace(string(data))
}

func (r *resultReader) word(value string) string {
	value = strings.ToLower(value)
	if strings.Contains(r.seen.String(), value) {
		return ""
	}
	return r.words[value]
}

// say puts words in the place of values that were not shown.
func (r *resultReader) say(v any) any {
	switch v := v.(type) {
	case map[string]any:
		said := map[string]any{}
		for key, x := range v {
			said[key] = r.say(x)
		}
		return said
	case []any:
		said := make([]any, len(v))
		for i, x := range v {
			said[i] = r.say(x)
		}
		return said
	case string:
		for _, token := range append([]string{v}, parted.Split(v, -1)...) {
			token = strings.TrimRight(token, glued)
			if word := r.word(token); token != "" && word != "" {
				v = strings.ReplaceAll(v, token, word)
			}
		}
		return v
	}
	return v
}

// blind reports a value of a call that a tool had returned, and that the agent was
// neither shown nor given a word for: no agent could make that call.
func (r *resultReader) blind(args map[string]any) bool {
	return slices.ContainsFunc(scalars(args), func(x string) bool {
		l := strings.ToLower(x)
		return len(l) >= 6 && !strings.Contains(l, " ") && strings.Contains(r.raw.String(), l) && !strings.Contains(r.seen.String(), l) && r.word(x) == ""
	})
}
