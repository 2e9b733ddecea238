package pluginhost_test

import (
	"bufio"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/pluginhost"
)

// scripted is a handler without a process: it answers initialize, and whatever
// is asked next with these bytes, upon which it ends.
func scripted(output []byte) func(context.Context, pluginhost.LaunchSpec) (pluginhost.Process, error) {
	return func(context.Context, pluginhost.LaunchSpec) (pluginhost.Process, error) {
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		errR, errW := io.Pipe()
		ended := make(chan struct{})
		end := sync.OnceFunc(func() {
			_, _, _ = inR.Close(), outW.Close(), errW.Close()
			close(ended)
		})
		go func() {
			defer end()
			lines := bufio.NewReader(inR)
			if _, err := lines.ReadString('\n'); err != nil {
				return
			}
			if _, err := io.WriteString(outW, `{"jsonrpc":"2.0","id":1,"result":null}`+"\n"); err != nil {
				return
			}
			if _, err := lines.ReadString('\n'); err == nil {
				_, _ = outW.Write(output)
			}
		}()
		return pluginhost.Process{Stdin: inW, Stdout: outR, Stderr: errR,
			Wait: func() error { <-ended; return nil }, Kill: func() error { end(); return nil }}, nil
	}
}

// Whatever a handler writes, its caller gets an answer and the host closes.
func FuzzHandlerOutput(f *testing.F) {
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":2,"result":{"a":1}}`, `{"id":2,"error":{"code":1,"message":"m","data":{"code":"A","message":"m","retriable":false}}}`,
		`{"id":2,"error":7}`, `{"id":2,"result":NaN}`, `{"id":"2","result":1}`, `{"id":2,"method":"getAuditLog","params":{"ticket":"x"}}`, `{"id":2}`,
		`[]`, ``, "\xff", `{"id":99999999999999999999,"result":1}`, `{"id":2,"result":1}{"id":2}`, strings.Repeat("x", 2<<20) + `"id":2}`,
	} {
		f.Add([]byte(line + "\n"))
	}
	root := f.TempDir()
	writePlugin(f, root, "p", `"handler":["x"]`, "echo")
	found, err := pluginhost.Discover(root)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, output []byte) {
		o := options(t)
		o.Launch = scripted(output)
		o.Limits.Backoff = time.Hour
		h, err := pluginhost.Start(t.Context(), found, o)
		if err != nil {
			t.Fatal(err)
		}
		r := running{Host: h}
		_, _ = r.call(t.Context(), "echo", `{}`)
		_ = h.Close(t.Context())
	})
}
