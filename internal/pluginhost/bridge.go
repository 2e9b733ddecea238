package pluginhost

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nacre-dev/nacre/internal/pluginhost/mcp"
	"github.com/nacre-dev/nacre/internal/wire"
	"github.com/nacre-dev/nacre/plugin"
)

// leaveGrace is for an MCP server to end once its input is closed.
const leaveGrace = time.Second

// maxNotes is how much of what one MCP server does oddly is recorded.
const maxNotes = 64

// start starts what the manifest names as the handler. An MCP server is made to
// look like any other: what holds for handlers holds for it.
func (g *guest) start(life context.Context, spec LaunchSpec) (Process, error) {
	server := g.found.Manifest.MCP
	if server.URL == "" {
		proc, err := g.opts.Launch(life, spec)
		if err != nil || len(server.Command) == 0 {
			return proc, err
		}
		m := &messages{proc: proc, fault: g.fault(life)}
		bridged := g.bridge(life, proc, m.reach)
		ended := bridged.Wait
		bridged.Wait = func() error {
			err := ended()
			m.passing.Wait()
			return err
		}
		return bridged, nil
	}
	if g.opts.Transport == nil {
		return Process{}, errors.New("mcp.url: this host reaches no servers")
	}
	transport, err := g.opts.Transport(spec)
	if err != nil {
		return Process{}, fmt.Errorf("mcp.url: %w", err)
	}
	return g.bridge(life, nowhere(life, transport), func(ctx context.Context, s plugin.Setup) (mcp.Peer, error) {
		p := mcp.Peer{URL: server.URL, Transport: transport}
		if server.Credential == "" {
			return p, nil
		}
		var err error
		if p.Bearer, err = s.Credential(ctx, server.Credential); err != nil {
			return p, &plugin.ToolError{Code: plugin.CategoryAuth, Message: "the credential " + server.Credential + " cannot be read"}
		}
		return p, nil
	}), nil
}

// nowhere is the process of a server that runs elsewhere: it ends when it is killed.
func nowhere(life context.Context, transport http.RoundTripper) Process {
	run, stop := context.WithCancel(life)
	wait := func() error {
		<-run.Done()
		if t, ok := transport.(interface{ CloseIdleConnections() }); ok {
			t.CloseIdleConnections()
		}
		return nil
	}
	none := io.NopCloser(strings.NewReader(""))
	return Process{
		Stdin: discard{}, Stdout: none, Stderr: none,
		Wait: wait, Kill: func() error { stop(); return nil },
	}
}

type discard struct{}

// Write implements io.Writer.
func (discard) Write(p []byte) (int, error) { return len(p), nil }

// Close implements io.Closer.
func (discard) Close() error { return nil }

// bridge speaks a handler's protocol on one side and MCP on the other. It lives
// as long as the process, and ends it when the session with the server ends.
func (g *guest) bridge(life context.Context, proc Process, reach func(context.Context, plugin.Setup) (mcp.Peer, error)) Process {
	grace := leaveGrace
	if g.found.Manifest.MCP.URL != "" {
		grace = 0 // there is no process to wait for
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	errR, errW := io.Pipe()
	handler, stop := mcp.Handler{
		Plugin: g.found.Name, Manifest: g.found.Manifest, Reach: reach, Log: errW,
		Note: g.noting(life),
		Gone: func() { endAfter(proc, grace) },
	}.Serve()
	served := make(chan struct{})
	var copying sync.WaitGroup
	copying.Go(func() { _, _ = io.Copy(errW, proc.Stderr) }) // its end is the stream's
	go func() {
		defer close(served)
		_ = plugin.ServeOn(handler, inR, outW) // the end of its input is how it ends
		stop()
		endAfter(proc, grace)
	}()
	wait := func() error {
		err := proc.Wait()
		_ = proc.Kill() // what the server left behind ends with it
		late := time.AfterFunc(exitGrace, func() { _, _, _ = proc.Stdin.Close(), proc.Stdout.Close(), proc.Stderr.Close() })
		copying.Wait()
		_ = inR.Close()
		<-served
		late.Stop()
		_, _, _ = proc.Stdin.Close(), proc.Stdout.Close(), proc.Stderr.Close()
		_, _ = outW.Close(), errW.Close()
		return err
	}
	return Process{Stdin: inW, Stdout: outR, Stderr: errR, DataDir: proc.DataDir, Wait: wait, Kill: proc.Kill}
}

// noting records what one server does oddly, up to a limit: a flood must not
// flood the records.
func (g *guest) noting(ctx context.Context) func(what string) {
	var told atomic.Int64
	return func(what string) {
		switch n := told.Add(1); {
		case n < maxNotes:
			g.record(ctx, "plugin.mcp", "noted", detail{"what": g.redacted(what)})
		case n == maxNotes:
			g.record(ctx, "plugin.mcp", "noted", detail{"what": "more, which is not recorded"})
		}
	}
}

// endAfter kills a process that is still there a moment later: a Kill of one
// that has ended does nothing.
func endAfter(proc Process, grace time.Duration) {
	time.AfterFunc(grace, func() { _ = proc.Kill() })
}

// messages is a server's standard streams with what is no message taken out of them. A line that is
// too large, or no JSON, is answered in the server's name, so that it costs one call and not the
// session.
type messages struct {
	proc    Process
	fault   func(what string)
	passing sync.WaitGroup
}

func (m *messages) reach(context.Context, plugin.Setup) (mcp.Peer, error) {
	r, w := io.Pipe()
	m.passing.Go(func() { m.pass(w) })
	return mcp.Peer{Stream: &stream{PipeReader: r, WriteCloser: m.proc.Stdin}}, nil
}

// stream is read from the filter and written to the server.
type stream struct {
	*io.PipeReader
	io.WriteCloser
}

// Close ends both directions.
func (s *stream) Close() error { return errors.Join(s.PipeReader.Close(), s.WriteCloser.Close()) }

func (m *messages) pass(to *io.PipeWriter) {
	defer func() { _ = to.Close() }() // never fails
	lines := bufio.NewReaderSize(m.proc.Stdout, 64<<10)
	faults := 0
	for budget := maxSkipped; ; {
		line, whole, err := readLine(lines, mcp.MaxMessage-1, &budget)
		if err != nil {
			return
		}
		line, what := m.sound(line, whole)
		if what != "" {
			if faults++; faults&(faults-1) == 0 {
				m.fault(what)
			}
			if faults == maxFaults {
				_ = m.proc.Kill() // an error means that it has ended already
				return
			}
		}
		if line == nil {
			continue
		}
		if _, err := to.Write(append(line, '\n')); err != nil {
			return
		}
	}
}

// sound is the line itself, what stands for it, or nil; and what was wrong with it.
func (m *messages) sound(line []byte, whole bool) ([]byte, string) {
	limits := wire.Limits{Message: len(line), String: mcp.MaxMessage, CaseSensitive: true}
	members, err := wire.Object(line, limits)
	if whole && err == nil {
		return line, ""
	}
	var id json.RawMessage
	asks := false
	for _, member := range members {
		switch member.Key {
		case "id":
			id = member.Value
		case "method":
			asks = true
		}
	}
	code, what := plugin.RPCInternal, "an answer that is no JSON"
	if !whole {
		code, what = mcp.CodeTooLarge, "a message that is too large"
		if id == nil {
			id = idAtEnd(line)
		}
	}
	if id == nil || asks {
		return nil, "a line that is no message"
	}
	answer, err := json.Marshal(plugin.Message{JSONRPC: "2.0", ID: id, Error: &plugin.RPCError{Code: code, Message: what}})
	if err != nil {
		return nil, "a line that is no message"
	}
	return answer, what
}
