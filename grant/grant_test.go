package grant_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/grant"
	"github.com/nacre-dev/nacre/kernel"
	"github.com/nacre-dev/nacre/policy"
)

var agent = nacre.Principal{ID: "office/agent", Group: "office", Session: "s1"}

const asked = "Which invoices are open?"

// start is what an embedder does at every start, over what is kept in dir.
func start(t *testing.T, dir string) *kernel.Kernel {
	t.Helper()
	keys, err := grant.LoadKeys(dir)
	if err != nil {
		t.Fatal(err)
	}
	revoked, err := grant.OpenRevocations(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = revoked.Close() })
	k, err := kernel.New(kernel.Config{
		Policy: policy.Shipped(), Groups: policy.Groups{"office": {Tools: []string{"*"}}}, Recorder: audit.Memory(100),
		Now: time.Now, Random: rand.Reader, Keys: keys, Shared: kernel.Shared{Revocations: revoked},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = k.Register(nacre.Tool{
		Capability: nacre.Capability{
			ID: "billing.invoice_list", Tool: "invoice_list", Safety: nacre.Read, Sensitivity: nacre.SensitiveNone,
			Schema: json.RawMessage(`{"type":"object","additionalProperties":false}`),
		},
		Driver: nacre.DriverFunc(func(context.Context, nacre.Invocation) (json.RawMessage, error) {
			return json.RawMessage(`[{"id":1}]`), nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// private is a folder that nobody else can use.
func private(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func granted(t *testing.T, k *kernel.Kernel) nacre.Token {
	t.Helper()
	token, err := k.Grant(t.Context(), kernel.GrantRequest{Capability: "billing.invoice_list"}, agent, asked)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// F-33, F-42, K-33: a token is good after a restart, and one that was revoked is not.
func TestARestartKeepsGrantsAndRevocations(t *testing.T) {
	dir := private(t)
	first := start(t, dir)
	good, revoked := granted(t, first), granted(t, first)
	if err := first.Revoke(revoked.ID); err != nil {
		t.Fatal(err)
	}
	second := start(t, dir)
	if _, err := second.Invoke(t.Context(), good, agent, kernel.Input{}); err != nil {
		t.Errorf("the token that was not revoked: %v", err)
	}
	if _, err := second.Invoke(t.Context(), revoked, agent, kernel.Input{}); !errors.Is(err, nacre.ErrTokenRevoked) {
		t.Errorf("have %v, want %v", err, nacre.ErrTokenRevoked)
	}
}

// K-10, K-33: a key is rotated while grants of the last one are still out.
func TestKeysAreRotatedWhileAKernelRuns(t *testing.T) {
	dir := private(t)
	k := start(t, dir)
	old := granted(t, k)
	now := time.Now()
	keys, err := grant.RotateKeys(dir, now, now.Add(kernel.MaxGrantTTL))
	if err != nil {
		t.Fatal(err)
	}
	if err := k.ChangeKeys(keys); err != nil {
		t.Fatal(err)
	}
	fresh := granted(t, k)
	if fresh.KeyID == old.KeyID {
		t.Error("the new key does not sign")
	}
	for name, token := range map[string]nacre.Token{"old": old, "new": fresh} {
		if _, err := k.Invoke(t.Context(), token, agent, kernel.Input{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	keys.Retired = nil
	if err := k.ChangeKeys(keys); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Invoke(t.Context(), old, agent, kernel.Input{}); !errors.Is(err, nacre.ErrTokenUnknownKey) {
		t.Errorf("have %v, want %v", err, nacre.ErrTokenUnknownKey)
	}
	if err := k.ChangeKeys(kernel.Keys{}); err == nil {
		t.Error("a kernel without a key: accepted")
	}
}

// F-40, K-11: a holder narrows a token that came as text, without a kernel or a key.
func TestAHolderNarrowsATokenOffline(t *testing.T) {
	k := start(t, private(t))
	text, err := grant.Text(granted(t, k))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" {
		t.Errorf("the text %q does not fit in a URL", text)
	}
	held, err := grant.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	narrower, err := grant.Derive(held, nacre.Caveat{Principal: "office/agent/helper", Uses: new(1)})
	if err != nil {
		t.Fatal(err)
	}
	with := kernel.Input{Caller: "office/agent/helper"}
	if _, err := k.Invoke(t.Context(), narrower, agent, with); err != nil {
		t.Errorf("the first use: %v", err)
	}
	if _, err := k.Invoke(t.Context(), narrower, agent, with); !errors.Is(err, nacre.ErrTokenSpent) {
		t.Errorf("the second use: have %v, want %v", err, nacre.ErrTokenSpent)
	}
	_, err = grant.Derive(held, nacre.Caveat{Principal: "elsewhere/x"})
	if refusal := (*nacre.Refusal)(nil); !errors.As(err, &refusal) || !errors.Is(err, nacre.ErrTokenPrincipal) {
		t.Errorf("a principal elsewhere: have %v, want a refusal that is %v", err, nacre.ErrTokenPrincipal)
	}
	for _, bad := range []string{"", "x", text + "A", text[:len(text)-4], strings.Repeat("A", grant.MaxText+1)} {
		if _, err := grant.Parse(bad); !errors.Is(err, nacre.ErrTokenMalformed) {
			t.Errorf("%.20q: have %v, want %v", bad, err, nacre.ErrTokenMalformed)
		}
	}
}

// F-42: the secret of a key as an operator hands it over.
func TestAKeyIsReadFromText(t *testing.T) {
	secret := make([]byte, grant.MinKey)
	_, _ = rand.Read(secret)
	for _, text := range []string{
		hex.EncodeToString(secret), " " + base64.StdEncoding.EncodeToString(secret) + "\n", base64.RawURLEncoding.EncodeToString(secret),
	} {
		if have, err := grant.ParseKey(text); err != nil || !bytes.Equal(have, secret) {
			t.Errorf("%d characters: %v", len(text), err)
		}
	}
	for name, text := range map[string]string{
		"nothing": "", "a short key": hex.EncodeToString(secret[:31]), "a word": "correct horse battery staple and so on",
		"one byte": strings.Repeat("00", 32), "not ended": base64.StdEncoding.EncodeToString(secret)[:42],
	} {
		have, err := grant.ParseKey(text)
		if err == nil {
			t.Errorf("%s: accepted as %d bytes", name, len(have))
		} else if text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%s: the error shows the text", name)
		}
	}
}
