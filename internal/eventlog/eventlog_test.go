package eventlog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/corpus"
	"github.com/nacre-dev/nacre/internal/eventlog"
)

func open(t *testing.T, path string) *eventlog.Log {
	t.Helper()
	l, err := eventlog.Open(path, eventlog.Options{
		Now:   func() time.Time { return time.Unix(1, 0) },
		Clean: func(document []byte) []byte { return bytes.ReplaceAll(document, []byte("secret"), []byte("[gone]")) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func read(t *testing.T, path string, follow bool) (names []string, data string) {
	t.Helper()
	err := eventlog.Read(t.Context(), path, follow, func(e eventlog.Event) error {
		names, data = append(names, e.Name), data+string(e.Data)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names, data
}

// U-23: a log has what was told, without secrets, and goes on where a killed writer left it.
func TestALogKeepsWhatWasTold(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	l := open(t, path)
	if err := errors.Join(l.Write("progress", "a secret"), l.WriteOwn("settled", "7d2"), l.End("ended", map[string]int{"exit_code": 3}, false), l.Write("late", nil)); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(`{"event":"progr`) // a writer was killed here
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	l = open(t, path)
	if err := errors.Join(l.Write("started", nil), l.End("ended", nil, false)); err != nil {
		t.Fatal(err)
	}
	names, data := read(t, path, false)
	if have := strings.Join(names, " "); have != "progress settled ended started ended" || data != `"a [gone]""7d2"{"exit_code":3}` {
		t.Errorf("have %s, %s", have, data)
	}
	if e, ok := eventlog.Newest(path, "progress"); !ok || string(e.Data) != `"a [gone]"` {
		t.Errorf("the newest is %+v, %t", e, ok)
	}
	if e, ok := eventlog.Newest(path, "notice"); ok {
		t.Errorf("there is no notice, and have %+v", e)
	}
}

// U-23: a reader goes on while there is a writer, and ends when that is gone, however.
func TestAReaderEndsWithTheWriter(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	l := open(t, path)
	told, over := make(chan string, 10), make(chan error, 1)
	go func() {
		over <- eventlog.Read(context.Background(), path, true, func(e eventlog.Event) error {
			told <- e.Name
			return nil
		})
	}()
	for _, name := range []string{"one", "two"} {
		if err := l.Write(name, nil); err != nil {
			t.Fatal(err)
		}
		if have := <-told; have != name {
			t.Errorf("have %s", have)
		}
	}
	select {
	case err := <-over:
		t.Fatalf("the reader ended before the writer: %v", err)
	default:
	}
	if err := l.End("ended", nil, false); err != nil {
		t.Fatal(err)
	}
	if err := <-over; err != nil || <-told != "ended" {
		t.Errorf("have %v", err)
	}
	ctx, leave := context.WithCancel(t.Context())
	l = open(t, path)
	go func() { over <- eventlog.Read(ctx, path, true, func(eventlog.Event) error { return nil }) }()
	leave()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("have %v", err)
	}
	if err := l.End("ended", nil, false); err != nil {
		t.Fatal(err)
	}
}

// A log is bounded in all: lines, their number, and its end comes all the same.
func TestALogIsBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	l := open(t, path)
	long := strings.Repeat("x", eventlog.MaxLine/2-100)
	for range eventlog.MaxBytes/len(long) + 10 {
		if err := l.Write("progress", long); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(l.Write("report", strings.Repeat("x", eventlog.MaxLine)), l.End("ended", strings.Repeat("secret", eventlog.MaxLine), false)); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() > eventlog.MaxBytes+2*eventlog.MaxLine {
		t.Errorf("have %d bytes, %v", info.Size(), err)
	}
	names, data := read(t, path, true)
	if have := names[len(names)-2:]; have[0] != eventlog.Cut || have[1] != "ended" || strings.Contains(data, "secret") {
		t.Errorf("have %v", have)
	}
}

// What is no log is refused at once: links, pipes, lines without an end.
func TestOnlyALogIsRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		os.WriteFile(path("file"), nil, 0o600), os.Symlink("file", path("link")), syscall.Mkfifo(path("pipe"), 0o600), os.Mkdir(path("dir"), 0o700),
		os.WriteFile(path("line"), bytes.Repeat([]byte("x"), 2*eventlog.MaxLine), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "pipe", "dir", "line", "missing"} {
		err := eventlog.Read(t.Context(), path(name), true, func(eventlog.Event) error { return nil })
		if err == nil || name == "missing" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: have %v", name, err)
		}
		if _, found := eventlog.Newest(path(name), "progress"); found {
			t.Errorf("%s has an event", name)
		}
		if name == "line" || name == "missing" {
			continue
		}
		if _, err := eventlog.Open(path(name), eventlog.Options{Now: time.Now, Clean: func(d []byte) []byte { return d }}); err == nil {
			t.Errorf("%s is written", name)
		}
	}
}

// A log that nobody keeps takes everything.
func TestNoLogTakesEverything(t *testing.T) {
	t.Parallel()
	var l *eventlog.Log
	if err := errors.Join(l.Write("progress", nil), l.End("ended", nil, false)); err != nil {
		t.Error(err)
	}
}

// Lines of a log that somebody else wrote neither break the reader nor grow.
func FuzzRead(f *testing.F) {
	corpus.Add(f, []byte("{\"event\":\"a\"}\n{}\nnull\n[1]\n{\"event\":1}\n{\"event\":\"b\""))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = eventlog.Read(t.Context(), path, false, func(e eventlog.Event) error {
			if e.Name == "" || len(e.Data) > 0 && !json.Valid(e.Data) {
				t.Errorf("have %+v", e)
			}
			return nil
		})
	})
}
