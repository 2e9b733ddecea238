package plugintest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/plugin"
)

// subject is the plugin in a host of its own: what is called there, and what was
// heard of its processes.
type subject struct {
	o       Options
	found   pluginhost.Found
	records *records
	host    *pluginhost.Host

	mu   sync.Mutex
	taps []*tap
}

func newSubject(o Options, found pluginhost.Found) *subject {
	return &subject{o: o, found: found, records: &records{changed: make(chan struct{})}}
}

// open starts the host. What failed in it is in its health.
func (s *subject) open(ctx context.Context) (err error) {
	s.host, err = pluginhost.Start(ctx, []pluginhost.Found{s.found}, s.options())
	return err
}

func (s *subject) options() pluginhost.Options {
	o := pluginhost.Options{
		Launch: s.launch, Recorder: s.records, Now: s.o.Now, DataRoot: filepath.Join(s.o.Scratch, "data"), Version: s.o.Version,
		Services: services(), Redact: func(text string) string { return text }, Limits: s.o.Limits,
	}
	if len(s.o.Config) > 0 {
		o.Config = map[nacre.PluginName]json.RawMessage{s.found.Name: s.o.Config}
	}
	return o
}

func (s *subject) launch(ctx context.Context, spec pluginhost.LaunchSpec) (pluginhost.Process, error) {
	if s.o.Witness {
		spec.Argv = witnessed(spec.Argv)
	}
	p, err := s.o.Launch(ctx, spec)
	if err != nil {
		return p, err
	}
	t, p := tapped(p, len(s.found.Manifest.MCP.Command) > 0)
	s.mu.Lock()
	s.taps = append(s.taps, t)
	s.mu.Unlock()
	return p, nil
}

// tap is that of the newest process; nil where the handler is elsewhere.
func (s *subject) tap() *tap {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.taps) == 0 {
		return nil
	}
	return s.taps[len(s.taps)-1]
}

// taken are all taps, when their processes have ended.
func (s *subject) taken() []*tap {
	for _, t := range s.taps {
		t.reading.Wait()
	}
	return s.taps
}

// call carries out one call as the kernel would.
func (s *subject) call(ctx context.Context, t target, with sample, group nacre.Group) (string, error) {
	in := nacre.Invocation{
		ID: "conformance", Principal: nacre.Principal{ID: string(group) + "/conformance", Group: group, Session: "conformance"},
		Capability: t.Capability.ID, Tool: t.Capability.Tool, Arguments: with.arguments, Correlation: "conformance", Time: s.o.Now(),
	}
	pins, err := s.pins(t.Capability.Files, with.arguments)
	if err != nil {
		return "", err
	}
	in.Files = pins
	restarted, _ := s.records.of("plugin.restarted")
	result, err := t.Driver.Do(ctx, in)
	var gone interface{ Unavailable() bool }
	if errors.As(err, &gone) {
		waiting, cancel := context.WithTimeout(ctx, s.o.Patience)
		defer cancel()
		if s.records.await(waiting, "plugin.restarted", len(restarted)) {
			result, err = t.Driver.Do(ctx, in)
		}
	}
	return string(result), err
}

// pins make the files that arguments name: each has a line of text.
func (s *subject) pins(paths []string, arguments json.RawMessage) ([]nacre.FilePin, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	const text = "a file of the conformance run\n"
	at := filepath.Join(s.o.Scratch, "file.txt")
	if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(text))
	root := decode(arguments)
	var pins []nacre.FilePin
	for _, path := range paths {
		named(root, strings.Split(path, "."), "", func(argument, name string) {
			pins = append(pins, nacre.FilePin{Argument: argument, Name: name, SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(text)), Path: at})
		})
	}
	return pins, nil
}

// outcome is how a call ended: "" for a result, a ToolError's code, or why it failed.
func (s *subject) outcome(err error) (code, problem string) {
	var refusal *nacre.Refusal
	switch {
	case err == nil:
		return "", ""
	case errors.As(err, &refusal) && refusal.Original == "RESPONSE_TOO_LARGE":
		return "", fmt.Sprintf("the result is larger than %d bytes", plugin.MaxResult)
	case errors.As(err, &refusal):
		return refusal.Original, ""
	case errors.Is(err, context.DeadlineExceeded):
		return "", "no answer in time"
	}
	text := err.Error()
	if t := s.tap(); t != nil && t.said() != "" {
		text += "; it said: " + shown(lastLine(t.said()))
	}
	return "", text
}

// badAnswer reports whether the process answered a request with more than null.
func (s *subject) badAnswer(method string) bool {
	t := s.tap()
	return t != nil && t.answerTo(method) != "" && t.answerTo(method) != "null"
}

// named finds the strings at a dotted path, through lists.
func named(v any, path []string, at string, found func(argument, name string)) {
	switch v := v.(type) {
	case []any:
		for i, one := range v {
			named(one, path, at+"."+strconv.Itoa(i), found)
		}
	case map[string]any:
		if len(path) > 0 {
			if inner, ok := v[path[0]]; ok {
				named(inner, path[1:], at+"."+path[0], found)
			}
		}
	case string:
		if len(path) == 0 {
			found(strings.TrimPrefix(at, "."), v)
		}
	}
}

// services answer a handler as an installation without any history would.
func services() pluginhost.Services {
	empty := func(text string) (json.RawMessage, error) { return json.RawMessage(text), nil }
	return pluginhost.Services{
		AuditLog: func(context.Context, pluginhost.Scope, plugin.AuditFilter) (json.RawMessage, error) {
			return empty("[]")
		},
		ToolCatalog: func(context.Context, pluginhost.Scope) (json.RawMessage, error) {
			return empty("[]")
		},
		SessionInfo: func(_ context.Context, s pluginhost.Scope) (json.RawMessage, error) {
			return json.Marshal(map[string]any{"group": s.Group, "plugins": map[string]any{"healthy": []string{string(s.Plugin)}, "failed": []string{}}})
		},
		Credential: func(_ context.Context, _ nacre.PluginName, key string) (nacre.Secret, error) {
			return nacre.NewSecret(secretMade + key), nil
		},
		Publish: func(context.Context, pluginhost.Scope, string, json.RawMessage) error { return nil },
	}
}
