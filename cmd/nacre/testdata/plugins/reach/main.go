// Command reach is the handler of plugins that try what they may reach, for
// tests. Its one tool is called <plugin>_do.
package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

// calls is how often this process was asked to count.
var calls atomic.Int64

type args struct{ What, A, B string }

// said answers with what happened, also where that is an error.
func said(text string, err error) (any, error) {
	if err != nil {
		text = "error: " + err.Error()
	}
	return map[string]string{"said": text}, nil
}

func main() {
	name := os.Getenv("NACRE_PLUGIN")
	err := plugin.Serve(plugin.Handler{
		Tools:  map[nacre.ToolName]plugin.ToolFunc{nacre.ToolName(name + "_do"): plugin.Tool(do)},
		Verify: verify,
	})
	if err != nil {
		log.Fatal(err)
	}
}

func verify(ctx context.Context, s plugin.Setup) error {
	if _, err := s.Credential(ctx, "token"); err != nil {
		return &plugin.ToolError{Code: plugin.CategoryAuth, Message: "there is no token"}
	}
	return nil
}

func do(ctx context.Context, r *plugin.Request, a args) (any, error) {
	switch a.What {
	case "secret": // its digest alone
		value, err := r.Credential(ctx, a.A)
		sum := sha256.Sum256([]byte(value.Reveal()))
		return said(hex.EncodeToString(sum[:]), err)
	case "leak": // answers with the secret itself
		value, err := r.Credential(ctx, a.A)
		if a.B == "error" {
			return nil, &plugin.ToolError{Code: "LEAK", Message: "it is " + value.Reveal()}
		}
		return said("it is "+value.Reveal(), err)
	case "count": // calls of this process
		return said(strconv.FormatInt(calls.Add(1), 10), nil)
	case "tell": // says the secret itself to whoever listens, and crashes
		value, err := r.Credential(ctx, a.A)
		fmt.Fprintf(os.Stderr, "the value is %q, %v\n", value.Reveal(), err)
		os.Exit(3)
	case "get":
		return said(get(ctx, a.A))
	case "dial":
		conn, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", a.A)
		if err == nil {
			_ = conn.Close()
		}
		return said("connected", err)
	case "audit":
		var f plugin.AuditFilter
		if err := json.Unmarshal([]byte(a.A), &f); err != nil {
			return said("", err)
		}
		raw, err := r.AuditLog(ctx, f)
		return said(string(raw), err)
	case "sessions": // of the records alone
		raw, err := r.AuditLog(ctx, plugin.AuditFilter{LastN: 1_000_000})
		var records []struct{ Session, Group string }
		if err == nil {
			err = json.Unmarshal(raw, &records)
		}
		seen := map[string]int{}
		for _, record := range records {
			seen[record.Group+"/"+record.Session]++
		}
		return said(fmt.Sprint(slices.Sorted(maps.Keys(seen))), err)
	case "catalog":
		raw, err := r.ToolCatalog(ctx)
		return said(string(raw), err)
	case "info":
		raw, err := r.SessionInfo(ctx)
		return said(string(raw), err)
	case "publish":
		return said("published", r.Publish(ctx, a.A, map[string]string{"x": "y"}))
	case "env":
		return said(strings.Join(os.Environ(), "\n"), nil)
	case "list":
		entries, err := os.ReadDir(a.A)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return said(strings.Join(names, " "), err)
	case "read":
		data, err := os.ReadFile(a.A)
		return said(string(data), err)
	case "write":
		return said("written", os.WriteFile(a.A, []byte(a.B), 0o644))
	}
	return nil, errors.New("unknown")
}

func get(ctx context.Context, url string) (string, error) {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the host is this test's own
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	return fmt.Sprintf("%d %s", response.StatusCode, body), err
}
