package claim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/sandbox/inside"
	"github.com/nacre-dev/nacre/k8s/internal/claim"
)

// server is an API server that has what a test gives it, by the ends of paths.
type server struct {
	mu      sync.Mutex
	objects map[string]map[string]any
	// hangsUp is how many questions get no answer of its own, and the end of their connection.
	hangsUp int
}

func (s *server) put(path string, object map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[path] = object
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hangsUp > 0 && r.Method == http.MethodGet {
		s.hangsUp--
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_, _ = io.WriteString(conn, "a balancer's words\r\n\r\n") // which the client may not hear
			_ = conn.Close()
		}
		return
	}
	kind := strings.Split(strings.TrimPrefix(r.URL.Path, "/apis/"), "/")
	at := strings.Join(kind[max(len(kind)-2, 0):], "/")
	answer := func(code int, object any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(object) // to a client of ours
	}
	status := func(code int, reason string) {
		answer(code, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": "so it is", "code": code})
	}
	switch {
	case r.Header.Get("Authorization") != "Bearer ours":
		status(http.StatusForbidden, "Forbidden")
	case r.Method == http.MethodPost:
		var object map[string]any
		_ = json.NewDecoder(r.Body).Decode(&object) // of a client of ours
		object["metadata"].(map[string]any)["creationTimestamp"] = time.Now().UTC().Format(time.RFC3339)
		answer(http.StatusCreated, object)
	case s.objects[at] != nil:
		answer(http.StatusOK, s.objects[at])
	case kind[len(kind)-2] == "sandboxclaims":
		answer(http.StatusOK, s.objects["sandboxclaims"])
	default:
		status(http.StatusNotFound, "NotFound")
	}
}

// object is one of a kind, with a status.
func object(version, kind, name string, status, more map[string]any) map[string]any {
	meta := map[string]any{"name": name, "uid": "uid-of-" + name}
	for key, value := range more {
		meta[key] = value
	}
	return map[string]any{"apiVersion": version, "kind": kind, "metadata": meta, "status": status}
}

// conditions are a claim's with one that says whether it is ready.
func conditions(ready, reason, message string) map[string]any {
	return map[string]any{
		"conditions": []any{map[string]any{"type": "Ready", "status": ready, "reason": reason, "message": message}},
		"sandbox":    map[string]any{"name": "box"},
	}
}

// cluster is one whose API server has a claim that is ready, its sandbox and its pod, for the user of a token.
func cluster(t *testing.T, token string) (*server, *claim.Cluster) {
	t.Helper()
	s := &server{objects: map[string]map[string]any{
		"sandboxclaims": object("extensions.agents.x-k8s.io/v1beta1", "SandboxClaim", "claim", conditions("True", "Ready", ""), nil),
		"sandboxes/box": object("agents.x-k8s.io/v1beta1", "Sandbox", "box", nil, nil),
		"pods/box":      pod(map[string]any{"phase": "Running"}),
	}}
	at := httptest.NewUnstartedServer(s)
	at.Config.ErrorLog = log.New(io.Discard, "", 0)
	at.StartTLS()
	t.Cleanup(at.Close)
	config := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"k","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],
		"users":[{"name":"u","user":{"token":%q}}],"contexts":[{"name":"c","context":{"cluster":"k","user":"u"}}]}`, at.URL, token)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := claim.Open(inside.PodSettings{Kubeconfig: config, Namespace: "theirs", Pool: "nacre"})
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

func pod(status map[string]any) map[string]any {
	return object("v1", "Pod", "box", status, map[string]any{"ownerReferences": []any{map[string]any{
		"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "name": "box", "uid": "uid-of-box", "controller": true,
	}}})
}

func claimed(t *testing.T, c *claim.Cluster) *claim.Claim {
	t.Helper()
	cl, err := c.Claim(t.Context(), "work", "ada", "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

// whoever has a token of another namespace gets no pod, and is told which namespace it was and what helps.
func TestATokenOfAnotherNamespaceClaimsNothing(t *testing.T) {
	t.Parallel()
	_, c := cluster(t, "others")
	_, err := c.Claim(t.Context(), "work", "ada", "127.0.0.1:1")
	if err == nil || !strings.Contains(err.Error(), "does not let this user claim a pod in namespace theirs") || !strings.Contains(err.Error(), "[sandbox.k8s] namespace") {
		t.Errorf("have %v", err)
	}
}

// a claim that never becomes ready ends with what its controller says, and what to look at.
func TestAClaimThatNeverBecomesReadySaysSo(t *testing.T) {
	t.Parallel()
	s, c := cluster(t, "ours")
	s.put("sandboxclaims", object("extensions.agents.x-k8s.io/v1beta1", "SandboxClaim", "claim", conditions("False", "NoPods", "the pool is empty"), nil))
	cl := claimed(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := cl.Ready(ctx)
	if err == nil || !strings.Contains(err.Error(), "did not become ready") || !strings.Contains(err.Error(), "NoPods: the pool is empty") || !strings.Contains(err.Error(), "kubectl -n theirs describe sandboxclaim") {
		t.Errorf("have %v", err)
	}
}

// a question to the API server whose answer is lost with its connection is asked again while the claim is
// waited for. One that never answers is named at the end.
func TestAClaimIsWaitedForThoughAnAnswerIsLost(t *testing.T) {
	t.Parallel()
	s, c := cluster(t, "ours")
	cl := claimed(t, c)
	s.mu.Lock()
	s.hangsUp = 2
	s.mu.Unlock()
	have, err := cl.Ready(t.Context())
	if err != nil || have.Name != "box" || have.UID != "uid-of-box" {
		t.Errorf("have %+v, %v", have, err)
	}
	s.mu.Lock()
	s.hangsUp = 1 << 20
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := cl.Ready(ctx); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("have %v", err)
	}
}

// how a pod ended that was evicted in the middle is said in the cluster's words, also once it is gone. A pod
// of somebody else's is refused.
func TestAPodThatIsEvictedIsSaidToBe(t *testing.T) {
	t.Parallel()
	s, c := cluster(t, "ours")
	cl := claimed(t, c)
	if _, err := cl.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.put("pods/box", pod(map[string]any{"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}))
	if why := cl.Why(t.Context()); why != "the pod box ended: Evicted: The node was low on resource: memory." {
		t.Errorf("have %q", why)
	}
	s.put("pods/box", nil)
	if why := cl.Why(t.Context()); !strings.Contains(why, "it was evicted or deleted, or its node failed") {
		t.Errorf("have %q", why)
	}
	s.put("pods/box", object("v1", "Pod", "box", nil, nil))
	if _, err := claimed(t, c).Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "is not the sandbox's box: refused") {
		t.Errorf("have %v", err)
	}
}
