package sshagent_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/binary"
	"encoding/pem"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/nacre-dev/nacre/internal/lease/sshagent"
)

func ed(t testing.TB) ssh.Signer {
	t.Helper()
	signer, err := ssh.NewSignerFromKey(edKey(t))
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// edKey is a private key.
func edKey(t testing.TB) any {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return private
}

// world is an agent with one key for user git at one host, and a client of it.
type world struct {
	agent.ExtendedAgent
	key     sshagent.Signer
	host    ssh.Signer
	socket  string
	refused chan string
}

func (w world) public() ssh.PublicKey { return w.key.Public() }

// newWorld has a private key as ssh-keygen writes it.
func newWorld(t testing.TB, private any) world {
	t.Helper()
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	key, err := sshagent.ParsePrivate(string(pem.EncodeToMemory(block)))
	if err != nil {
		t.Fatal(err)
	}
	w := world{key: key, host: ed(t), socket: filepath.Join(t.TempDir(), "s"), refused: make(chan string, 100)}
	a := sshagent.Agent{
		Keys: func(context.Context) []sshagent.Key {
			return []sshagent.Key{{
				Comment: "forge", Public: key.Public(), User: "git", Hosts: []ssh.PublicKey{w.host.PublicKey()}, Sign: key.Sign,
			}}
		},
		Refused: func(_ context.Context, key string, why error) { w.refused <- key + ": " + why.Error() },
	}
	l, err := net.Listen("unix", w.socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	w.ExtendedAgent = agent.NewClient(w.dial(t))
	return w
}

func (w world) dial(t testing.TB) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", w.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

var session = []byte("the hash of a key exchange")

// binding is a session-bind message of a host.
func binding(t testing.TB, host ssh.Signer, signed []byte, forwarded bool) []byte {
	t.Helper()
	s, err := host.Sign(rand.Reader, signed)
	if err != nil {
		t.Fatal(err)
	}
	return ssh.Marshal(struct {
		Host, Session, Signature []byte
		Forwarded                bool
	}{host.PublicKey().Marshal(), session, ssh.Marshal(s), forwarded})
}

// login is what a client signs.
type login struct {
	Session               []byte
	Message               [1]byte
	User, Service, Method string
	Signed                bool
	Algorithm             string
	Key                   []byte
	Rest                  []byte `ssh:"rest"`
}

func (w world) login() login {
	return login{session, [1]byte{50}, "git", "ssh-connection", "publickey", true, w.public().Type(), w.public().Marshal(), nil}
}

// M-36: a signature is given for the login of one user at a listed host, on the connection
// that the host signed, and for nothing else.
func TestOnlyTheListedLoginIsSigned(t *testing.T) {
	stranger := ed(t)
	const bind = "session-bind@openssh.com"
	type attempt struct {
		w     world
		l     login
		flags agent.SignatureFlags
	}
	for name, c := range map[string]struct {
		change func(*attempt)
		want   string // why it is refused; empty where it is signed
	}{
		"as it is listed": {func(a *attempt) { _, _ = a.w.Extension(bind, binding(t, a.w.host, session, false)) }, ""},
		"naming the host as well": {func(a *attempt) {
			_, _ = a.w.Extension(bind, binding(t, a.w.host, session, false))
			a.l.Method, a.l.Rest = "publickey-hostbound-v00@openssh.com", ssh.Marshal(struct{ H []byte }{a.w.host.PublicKey().Marshal()})
		}, ""},
		"naming another host": {func(a *attempt) {
			_, _ = a.w.Extension(bind, binding(t, a.w.host, session, false))
			a.l.Method, a.l.Rest = "publickey-hostbound-v00@openssh.com", ssh.Marshal(struct{ H []byte }{stranger.PublicKey().Marshal()})
		}, "another host's key"},
		"not bound":         {func(*attempt) {}, "did not say which host"},
		"bound to another":  {func(a *attempt) { _, _ = a.w.Extension(bind, binding(t, stranger, session, false)) }, "is not in host_keys"},
		"bound by a forger": {func(a *attempt) { _, _ = a.w.Extension(bind, binding(t, a.w.host, []byte("other"), false)) }, "did not sign the connection"},
		"forwarded":         {func(a *attempt) { _, _ = a.w.Extension(bind, binding(t, a.w.host, session, true)) }, "forwarded"},
		"bound twice": {func(a *attempt) {
			_, _ = a.w.Extension(bind, binding(t, stranger, session, false))
			_, _ = a.w.Extension(bind, binding(t, a.w.host, session, false))
		}, "bound to a host before"},
		"bound with half a message": {func(a *attempt) { _, _ = a.w.Extension(bind, binding(t, a.w.host, session, false)[:40]) }, "cannot be read"},
		"another user":              {func(a *attempt) { _, _ = a.w.Extension(bind, binding(t, a.w.host, session, false)); a.l.User = "root" }, `as "root"`},
		"another connection": {func(a *attempt) {
			_, _ = a.w.Extension(bind, binding(t, a.w.host, session, false))
			a.l.Session = []byte("x")
		}, "another connection"},
		"another service": {func(a *attempt) {
			_, _ = a.w.Extension(bind, binding(t, a.w.host, session, false))
			a.l.Service = "sftp"
		}, "not a login"},
		"another message": {func(a *attempt) {
			_, _ = a.w.Extension(bind, binding(t, a.w.host, session, false))
			a.l.Message[0] = 51
		}, "not a login"},
		"another method": {func(a *attempt) {
			_, _ = a.w.Extension(bind, binding(t, a.w.host, session, false))
			a.l.Method = "hostbased"
		}, "another host's key"},
		"another key inside": {func(a *attempt) {
			_, _ = a.w.Extension(bind, binding(t, a.w.host, session, false))
			a.l.Key = stranger.PublicKey().Marshal()
		}, "another key"},
		"something behind it": {func(a *attempt) {
			_, _ = a.w.Extension(bind, binding(t, a.w.host, session, false))
			a.l.Rest = []byte("x")
		}, "another host's key"},
		"another algorithm": {func(a *attempt) {
			_, _ = a.w.Extension(bind, binding(t, a.w.host, session, false))
			a.flags = agent.SignatureFlagRsaSha512
		}, "another algorithm"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, edKey(t))
			a := attempt{w: w, l: w.login()}
			c.change(&a)
			data := ssh.Marshal(a.l)
			s, err := w.SignWithFlags(w.public(), data, a.flags)
			if c.want == "" {
				if err != nil || w.public().Verify(data, s) != nil {
					t.Errorf("have %v, %v", s, err)
				}
				return
			}
			var all []string
			for len(w.refused) > 0 {
				all = append(all, <-w.refused)
			}
			if err == nil || !strings.Contains(strings.Join(all, "\n"), c.want) {
				t.Errorf("have %v, %v, refused %q, want %q", s, err, all, c.want)
			}
		})
	}
}

// M-36: what is no login is refused whole, and no key is added, taken away or locked.
func TestTheAgentDoesNothingElse(t *testing.T) {
	w := newWorld(t, edKey(t))
	if _, err := w.Extension("session-bind@openssh.com", binding(t, w.host, session, false)); err != nil {
		t.Fatal(err)
	}
	_, other, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"add": w.Add(agent.AddedKey{PrivateKey: &other}), "remove": w.Remove(w.public()), "remove all": w.RemoveAll(),
		"lock": w.Lock([]byte("x")), "unlock": w.Unlock([]byte("x")),
		"a signature over a file": func() error { _, err := w.Sign(w.public(), []byte("SSHSIG\x00\x00\x00\x03git")); return err }(),
		"a key that is not there": func() error { _, err := w.Sign(ed(t).PublicKey(), ssh.Marshal(w.login())); return err }(),
		"another extension":       func() error { _, err := w.Extension("query", nil); return err }(),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if keys, err := w.List(); err != nil || len(keys) != 1 || keys[0].Comment != "forge" {
		t.Errorf("have %v, %v", keys, err)
	}
}

// M-36: RSA and ECDSA keys sign with SHA-2, and never with SHA-1.
func TestKeysOfEachTypeSign(t *testing.T) {
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		private   any
		algorithm string
		flags     agent.SignatureFlags
		signed    bool
	}{
		"ecdsa":          {curve, ssh.KeyAlgoECDSA256, 0, true},
		"rsa, SHA-256":   {large, ssh.KeyAlgoRSASHA256, agent.SignatureFlagRsaSha256, true},
		"rsa, SHA-512":   {large, ssh.KeyAlgoRSASHA512, agent.SignatureFlagRsaSha512, true},
		"rsa, SHA-1":     {large, ssh.KeyAlgoRSA, 0, false},
		"rsa, as SHA-1":  {large, ssh.KeyAlgoRSASHA512, 0, false},
		"rsa, as SHA-1.": {large, ssh.KeyAlgoRSA, agent.SignatureFlagRsaSha512, false},
	} {
		w := newWorld(t, c.private)
		if _, err := w.Extension("session-bind@openssh.com", binding(t, w.host, session, false)); err != nil {
			t.Fatal(err)
		}
		l := w.login()
		l.Algorithm = c.algorithm
		data := ssh.Marshal(l)
		s, err := w.SignWithFlags(w.public(), data, c.flags)
		if c.signed != (err == nil) || c.signed && (s.Format != c.algorithm || w.public().Verify(data, s) != nil) {
			t.Errorf("%s: have %v, %v", name, s, err)
		}
	}
}

// M-36: what is no message ends its connection, and no other one.
func TestHostileMessagesEndTheirConnection(t *testing.T) {
	w := newWorld(t, edKey(t))
	for _, sent := range []string{"\x00\x00\x00\x00", "\xff\xff\xff\xff", "\x00\x01\x00\x00x", "\x00\x00"} {
		conn := w.dial(t)
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Fatal(err)
		}
		_ = conn.(*net.UnixConn).CloseWrite()
		if answer, _ := io.ReadAll(conn); len(answer) > 0 { // it may be reset: what was sent was not read to its end
			t.Errorf("%q: have %q", sent, answer)
		}
	}
	if _, err := w.List(); err != nil {
		t.Error(err)
	}
}

// FuzzMessages: whatever is sent gets one answer or none, and no signature.
func FuzzMessages(f *testing.F) {
	w := newWorld(f, edKey(f))
	f.Add([]byte{11})
	f.Add(append([]byte{27}, ssh.Marshal(struct {
		Name string
		Body []byte `ssh:"rest"`
	}{"session-bind@openssh.com", binding(f, w.host, session, false)})...))
	f.Add(append([]byte{13}, ssh.Marshal(struct {
		Key, Data []byte
		Flags     uint32
	}{w.public().Marshal(), ssh.Marshal(w.login()), 0})...))
	f.Fuzz(func(t *testing.T, message []byte) {
		conn := w.dial(t)
		_, _ = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...))
		_ = conn.(*net.UnixConn).CloseWrite()
		answer, _ := io.ReadAll(conn)
		if len(answer) > 4 && answer[4] == 14 {
			t.Errorf("signed: %x", answer)
		}
		if bytes.Contains(answer, []byte("PRIVATE")) {
			t.Error("a private key")
		}
		for len(w.refused) > 0 {
			<-w.refused
		}
	})
}

// M-36: a key that cannot be used says why, and nothing of it is repeated.
func TestAPrivateKeyThatCannotBeUsed(t *testing.T) {
	block, err := ssh.MarshalPrivateKeyWithPassphrase(edKey(t).(crypto.PrivateKey), "", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		string(pem.EncodeToMemory(block)): "passphrase",
		"hunter2":                         "not a private key",
		"-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n": "not a private key",
	} {
		if _, err := sshagent.ParsePrivate(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("have %v, want %q", err, want)
		}
	}
}
