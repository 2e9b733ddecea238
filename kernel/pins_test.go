package kernel_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/kernel"
)

// desk is a workspace in memory: files by name, and the copies that were made.
type desk struct {
	mu     sync.Mutex
	files  map[string]string
	copies map[string]string
	made   int
	// pin, where set, stands in for what follows.
	pin func(name string) (nacre.FilePin, error)
}

func (d *desk) write(name, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[name] = text
}

func (d *desk) left() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.copies))
}

func (d *desk) read(path string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.copies[path]
}

func (d *desk) Pin(_ context.Context, _ nacre.Principal, name string, limit int64) (nacre.FilePin, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pin != nil {
		return d.pin(name)
	}
	text, ok := d.files[name]
	if !ok || int64(len(text)) > limit {
		return nacre.FilePin{}, &nacre.Refusal{Message: "no such file of this size"}
	}
	d.made++
	path := fmt.Sprint("copy ", d.made)
	d.copies[path] = text
	sum := sha256.Sum256([]byte(text))
	return nacre.FilePin{SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(text)), Path: path}, nil
}

func (d *desk) Unpin(pin nacre.FilePin) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.copies, pin.Path)
}

const letterSchema = `{"type":"object","additionalProperties":false,"properties":{
	"to":{"type":"string"},
	"letter":{"type":["string","null","integer"]},
	"parts":{"type":"array","items":{"type":"object","additionalProperties":false,"properties":{
		"file":{"type":"string"},"note":{"type":"string"}}}}}}`

// letter is a capability whose arguments name files.
func letter(change func(*nacre.Capability)) nacre.Capability {
	return note(func(c *nacre.Capability) {
		c.Schema, c.Files, c.Returns = json.RawMessage(letterSchema), []string{"letter", "parts.file"}, nacre.Trusted
		if change != nil {
			change(c)
		}
	})
}

// posts is a house with the tool letter, whose driver reads what it is given.
func posts(t *testing.T, ask answer, change func(*nacre.Capability)) (*house, *desk, *[]string) {
	t.Helper()
	d := &desk{files: map[string]string{"a.txt": "one", "b.txt": "two"}, copies: map[string]string{}}
	h := open(t, func(c *kernel.Config) { c.Approver, c.Pinner = ask, d })
	sent := &[]string{}
	h.add(t, letter(change), func(_ context.Context, in nacre.Invocation) (json.RawMessage, error) {
		for _, f := range in.Files {
			*sent = append(*sent, f.Argument+"="+f.Name+":"+d.read(f.Path))
		}
		return json.RawMessage(`{}`), nil
	})
	return h, d, sent
}

// D-13: what was approved is what runs, also where the agent changes the file
// between the question and the answer, or between the answer and the call.
func TestAFileThatIsSwappedAfterTheQuestionIsNotUsed(t *testing.T) {
	var d *desk
	var asked nacre.Question
	h, d, sent := posts(t, func(ctx context.Context, q nacre.Question) (nacre.Ruling, error) {
		asked = q
		d.write("a.txt", "something else")
		return yes(ctx, q)
	}, risky)
	if _, err := h.Call(t.Context(), call(`{"letter":"a.txt"}`)); err != nil {
		t.Fatal(err)
	}
	if have := strings.Join(*sent, " "); have != "letter=a.txt:one" {
		t.Errorf("the driver was given %s", have)
	}
	sum := sha256.Sum256([]byte("one"))
	if len(asked.Files) != 1 || asked.Files[0].Name != "a.txt" || asked.Files[0].Bytes != 3 || asked.Files[0].SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("the question shows %+v", asked.Files)
	}
	if encoded, err := json.Marshal(asked); err != nil || strings.Contains(string(encoded), "copy ") {
		t.Errorf("the question says where the copy is: %s %v", encoded, err)
	}
	for _, r := range h.chain.all() {
		if r.Kind == nacre.KindCallBegin || r.Kind == nacre.KindApprovalAsk {
			if !strings.Contains(string(r.Detail), `"files":[{"argument":"letter","bytes":3,"sha256":"`+hex.EncodeToString(sum[:])+`"}]`) {
				t.Errorf("%s: have %s", r.Kind, r.Detail)
			}
		}
		if strings.Contains(string(r.Detail), "a.txt") || !json.Valid(r.Detail) {
			t.Errorf("%s: have %s", r.Kind, r.Detail)
		}
	}
	if left := d.left(); len(left) > 0 {
		t.Errorf("copies are left: %s", left)
	}
}

// D-13: the answer is bound to the content, and to which argument it stands in.
func TestTheDigestOfAQuestionTellsFilesApart(t *testing.T) {
	seen := map[string]string{}
	for _, files := range []struct{ a, b, arguments string }{
		{"one", "two", `{"letter":"a.txt","parts":[{"file":"b.txt"}]}`},
		{"two", "one", `{"letter":"a.txt","parts":[{"file":"b.txt"}]}`},
		{"onetwo", "", `{"letter":"a.txt","parts":[{"file":"b.txt"}]}`},
		{"one", "two", `{"letter":"a.txt","parts":[{"file":"b.txt"},{"file":"b.txt"}]}`},
	} {
		ids := strings.NewReader(strings.Repeat("the same each time", 100))
		var digest string
		d := &desk{files: map[string]string{"a.txt": files.a, "b.txt": files.b}, copies: map[string]string{}}
		h := open(t, func(c *kernel.Config) {
			c.Random, c.Pinner = ids, d
			c.Approver = answer(func(ctx context.Context, q nacre.Question) (nacre.Ruling, error) {
				digest = q.Digest
				return yes(ctx, q)
			})
		})
		h.add(t, letter(risky), nil)
		if _, err := h.Call(t.Context(), call(files.arguments)); err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[digest]; ok {
			t.Errorf("%v and %s have one digest", files, other)
		}
		seen[digest] = fmt.Sprint(files)
	}
}

// D-13: what nobody is asked about is pinned too, and so are the files of a grant.
func TestFilesArePinnedWhereNobodyIsAsked(t *testing.T) {
	h, d, sent := posts(t, nil, nil)
	if _, err := h.Call(t.Context(), call(`{"letter":"b.txt","parts":[{"note":"x"},{"file":"a.txt"}]}`)); err != nil {
		t.Fatal(err)
	}
	grant, err := h.Grant(t.Context(), kernel.GrantRequest{Capability: "notes.note_add"}, writer, "because")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Invoke(t.Context(), grant, writer, kernel.Input{Arguments: json.RawMessage(`{"letter":"a.txt"}`)}); err != nil {
		t.Fatal(err)
	}
	if have := strings.Join(*sent, " "); have != "letter=b.txt:two parts.1.file=a.txt:one letter=a.txt:one" {
		t.Errorf("the driver was given %s", have)
	}
	if left := d.left(); len(left) > 0 {
		t.Errorf("copies are left: %s", left)
	}
}

// D-13: who agreed to a grant has not seen what is in the files of its uses.
func TestAGrantDoesNotAnswerForFiles(t *testing.T) {
	var asked []nacre.Question
	h, _, _ := posts(t, func(ctx context.Context, q nacre.Question) (nacre.Ruling, error) {
		asked = append(asked, q)
		return yes(ctx, q)
	}, risky)
	arguments := json.RawMessage(`{"letter":"a.txt"}`)
	grant, err := h.Grant(t.Context(), kernel.GrantRequest{Capability: "notes.note_add", Arguments: arguments}, writer, "because")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Invoke(t.Context(), grant, writer, kernel.Input{Arguments: arguments}); err != nil {
		t.Fatal(err)
	}
	if len(asked) != 2 || len(asked[1].Files) != 1 {
		t.Errorf("asked %+v", asked)
	}
}

// D-13: a ruling on "the same" is about the content, too.
func TestARulingForTheSameDoesNotCoverChangedContent(t *testing.T) {
	asked := 0
	h, d, _ := posts(t, func(_ context.Context, q nacre.Question) (nacre.Ruling, error) {
		asked++
		return nacre.Ruling{Verdict: nacre.Allow, Digest: q.Digest, For: time.Hour, Scope: nacre.ScopeSame}, nil
	}, func(c *nacre.Capability) { c.HighRisk, c.Sinks = true, []string{"to"} })
	for _, step := range []struct {
		content, arguments string
		want               int
	}{
		{"one", `{"to":"x","letter":"a.txt"}`, 1},
		{"one", `{"to":"x","letter":"a.txt"}`, 1},
		{"new", `{"to":"x","letter":"a.txt"}`, 2},
		{"new", `{"to":"x","letter":"b.txt"}`, 3},
		{"new", `{"to":"x"}`, 4},
		{"one", `{"to":"x","letter":"a.txt"}`, 4},
	} {
		d.write("a.txt", step.content)
		if _, err := h.Call(t.Context(), call(step.arguments)); err != nil {
			t.Fatal(err)
		}
		if asked != step.want {
			t.Errorf("%+v: asked %d times", step, asked)
		}
	}
}

// D-13, D-11: what cannot be pinned is refused before anybody is asked, by the
// argument's name.
func TestFilesThatCannotBePinnedAreRefused(t *testing.T) {
	many := strings.Repeat(`{"file":"a.txt"},`, kernel.MaxFiles)
	for name, test := range map[string]struct{ arguments, field string }{
		"a missing file":            {`{"letter":"c.txt"}`, "letter"},
		"the second of two":         {`{"parts":[{"file":"a.txt"},{"file":"c.txt"}]}`, "parts.1.file"},
		"a number":                  {`{"letter":7}`, "letter"},
		"too many":                  {`{"parts":[` + many + `{"file":"b.txt"}]}`, fmt.Sprintf("parts.%d.file", kernel.MaxFiles)},
		"too many, and not strings": {`{"letter":7,"parts":[` + many + `{"file":"b.txt"}]}`, "letter"},
		"too much in all":           {`{"letter":"big","parts":[{"file":"big"}]}`, "parts.0.file"},
	} {
		t.Run(name, func(t *testing.T) {
			h, d, _ := posts(t, func(context.Context, nacre.Question) (nacre.Ruling, error) {
				t.Error("a person was asked")
				return nacre.Ruling{}, nil
			}, risky)
			d.write("big", strings.Repeat("x", kernel.MaxFileBytes/2+1))
			_, err := h.Call(t.Context(), call(test.arguments))
			have := refusal(t, err)
			if have.Code != nacre.CodeValidationFailed || have.Field != test.field || !strings.Contains(have.Message, test.field) {
				t.Errorf("have %+v", have)
			}
			if len(h.called()) > 0 || len(d.left()) > 0 {
				t.Errorf("called %v, left %v", h.called(), d.left())
			}
		})
	}
}

// D-13: a pinner that fails tells the agent nothing, and one that panics,
// answers nonsense or hangs lets nothing run.
func TestAPinnerThatFailsRefuses(t *testing.T) {
	const secret = "/home/ann/.secret"
	for name, pin := range map[string]func(string) (nacre.FilePin, error){
		"an error":       func(string) (nacre.FilePin, error) { return nacre.FilePin{}, errors.New(secret) },
		"a panic":        func(string) (nacre.FilePin, error) { panic(secret) },
		"nothing":        func(string) (nacre.FilePin, error) { return nacre.FilePin{}, nil },
		"no digest":      func(string) (nacre.FilePin, error) { return nacre.FilePin{Bytes: 1, Path: secret}, nil },
		"a negative one": func(string) (nacre.FilePin, error) { return nacre.FilePin{Bytes: -1, Path: secret}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			h, d, _ := posts(t, yes, risky)
			d.pin = pin
			_, err := h.Call(t.Context(), call(`{"letter":"a.txt"}`))
			have := refusal(t, err)
			if have.Code != nacre.CodePluginUnavailable || have.Field != "letter" || strings.Contains(have.Message, secret) || len(h.called()) > 0 {
				t.Errorf("have %+v", have)
			}
		})
	}
}

// D-13: a copy that comes when nobody waits any more is removed.
func TestACopyThatComesTooLateIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowDesk{desk: desk{files: map[string]string{"a.txt": "one"}, copies: map[string]string{}}, release: make(chan struct{})}
		h := open(t, func(c *kernel.Config) { c.Now, c.Pinner = time.Now, slow })
		h.add(t, letter(nil), nil)
		_, err := h.Call(t.Context(), call(`{"letter":"a.txt"}`))
		if have := refusal(t, err); have.Code != nacre.CodePluginUnavailable || !have.Retriable {
			t.Errorf("have %+v", have)
		}
		close(slow.release)
		if err := h.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if left := slow.left(); len(left) > 0 || slow.made != 1 {
			t.Errorf("%d copies were made, left are %v", slow.made, left)
		}
	})
}

type slowDesk struct {
	desk
	release chan struct{}
}

func (d *slowDesk) Pin(ctx context.Context, p nacre.Principal, name string, limit int64) (nacre.FilePin, error) {
	<-d.release
	return d.desk.Pin(ctx, p, name, limit)
}

// D-13: absent and null name no file, and a dry run copies none.
func TestWhatNamesNoFileNeedsNone(t *testing.T) {
	h, d, sent := posts(t, yes, nil)
	for _, arguments := range []string{`{}`, `{"letter":null}`, `{"parts":[]}`, `{"parts":[{"note":"x"}]}`} {
		if _, err := h.Call(t.Context(), call(arguments)); err != nil {
			t.Errorf("%s: %v", arguments, err)
		}
	}
	dry := call(`{"letter":"a.txt"}`)
	dry.Hints.DryRun = true
	if _, err := h.Call(t.Context(), dry); err != nil {
		t.Error(err)
	}
	if len(*sent) > 0 || d.made > 0 {
		t.Errorf("sent %v, copied %d", *sent, d.made)
	}
}

// D-13: a tool whose files nobody can pin is not registered.
func TestAToolWhoseFilesCannotBePinnedIsNotRegistered(t *testing.T) {
	pinner := func(c *kernel.Config) { c.Pinner = &desk{} }
	for name, test := range map[string]struct {
		config func(*kernel.Config)
		files  []string
		want   string
	}{
		"no pinner":              {nil, []string{"letter"}, "Pinner"},
		"a name of no argument":  {pinner, []string{"parts.files"}, `"parts.files" is not declared in the input schema`},
		"more than can be named": {pinner, slices.Repeat([]string{"letter"}, kernel.MaxFiles+1), "17 arguments"},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t, test.config)
			c := letter(func(c *nacre.Capability) { c.Files = test.files })
			err := h.Register(nacre.Tool{Capability: c, Driver: nacre.DriverFunc(func(context.Context, nacre.Invocation) (json.RawMessage, error) { return nil, nil })})
			if err == nil || !strings.Contains(err.Error(), test.want) || h.Has(c.Tool) {
				t.Errorf("have %v", err)
			}
		})
	}
}
