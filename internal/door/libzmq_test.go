package door_test

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/testpeer"
	"github.com/nacre-dev/nacre/internal/wire"
)

// pythonWithZMQ finds an interpreter that has libzmq: the system's own package
// belongs to the system's own interpreter, which need not be the first in PATH.
func pythonWithZMQ(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), python, "-c", "import zmq").Run() == nil {
			return python
		}
	}
	testpeer.Missing(t, "zeromq", "no python3 can import zmq (Debian: python3-zmq)")
	return ""
}

// D-03: libzmq itself as the client.
func TestLibzmq(t *testing.T) {
	k := crew()
	k["ask"] = func(_ context.Context, call nacre.Call) (json.RawMessage, error) {
		call.OnAsk(time.Unix(1<<40, 0))
		return call.Arguments, nil
	}
	s := serve(t, k, config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	script := exec.CommandContext(ctx, pythonWithZMQ(t), "testdata/dealer.py", s.path)
	var failed strings.Builder
	script.Stderr = &failed
	out, err := script.Output()
	if err != nil {
		t.Fatalf("have %v, %s", err, failed.String())
	}
	var seen struct {
		Delimited, Alone, Req []string
		Twins                 [][]int
		Many                  []string
		Null, Large, Next     string
		Whole                 int
		Ask                   string

		Parts, Forty, Over, Probe, After, Last string
		Full, Handshake, Beating               bool
		Refused                                []bool
		Crowd                                  []int
	}
	if err := json.Unmarshal(out, &seen); err != nil {
		t.Fatalf("have %v of %.500s", err, out)
	}
	if len(seen.Delimited) != 2 || seen.Delimited[0] != "" || len(seen.Alone) != 1 || len(seen.Req) != 1 {
		t.Errorf("have %v, %v and %v, want answers in the form of the requests", seen.Delimited, seen.Alone, seen.Req)
	}
	for i, results := range seen.Twins {
		if len(results) != 20 || slices.ContainsFunc(results, func(have int) bool { return have != i }) {
			t.Errorf("client %d: have %v, want its own twenty", i, results)
		}
	}
	if len(slices.Compact(seen.Many)) != 64 {
		t.Errorf("have %v, want 64 answers", seen.Many)
	}
	if seen.Null != "VALIDATION_FAILED" || seen.Large != "VALIDATION_FAILED" || seen.Next != "next" {
		t.Errorf("have %q, %q, %q, want two refusals and an answer", seen.Null, seen.Large, seen.Next)
	}
	if seen.Whole != wire.MaxMessage-2 || seen.Ask != "response" {
		t.Errorf("have %d bytes and %q, want the whole result and no event", seen.Whole, seen.Ask)
	}
	for _, have := range []string{seen.Parts, seen.Forty, seen.Over, seen.Probe} {
		if have != "VALIDATION_FAILED" {
			t.Errorf("have %q, want VALIDATION_FAILED", have)
		}
	}
	if !seen.Full || !seen.Handshake || !seen.Beating || seen.After != "beating" || seen.Last != "last" {
		t.Errorf("have %+v, want a request at the limit, heartbeats and the last answered", seen)
	}
	if len(seen.Refused) != 8 || slices.Contains(seen.Refused, false) {
		t.Errorf("have %v, want every other kind of socket sent away", seen.Refused)
	}
	if len(seen.Crowd) != 60 || slices.ContainsFunc(seen.Crowd, func(answers int) bool { return answers != 10 }) {
		t.Errorf("have %v, want ten answers for each of sixty", seen.Crowd)
	}
}

// D-03: npm's zeromq as the client.
func TestNodeZeromq(t *testing.T) {
	folder := testpeer.Need(t, "zeromq")
	s := serve(t, crew(), config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	script := exec.CommandContext(ctx, testpeer.Able(t, "node", "-e", "require(process.argv[1])", filepath.Join(folder, "node_modules", "zeromq")), "testdata/dealer.cjs", s.path, folder)
	var failed strings.Builder
	script.Stderr = &failed
	out, err := script.Output()
	if err != nil {
		t.Fatalf("have %v, %s", err, failed.String())
	}
	want := `{"delimited":2,"alone":1,"request":1,"many":64,"null":"VALIDATION_FAILED","big":true,"twins":[20,20],"router":true,"beating":"beating","last":"last"}`
	if have := strings.TrimSpace(string(out)); have != want {
		t.Errorf("have %s, want %s", have, want)
	}
}
