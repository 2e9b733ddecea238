package compat_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
)

// domain holds the hosts of the servers; elsewhere.test is the one that is not listed.
const domain = "compat.test"

// servers are one TLS listener and one plain one on loopback that answer for all hosts.
type servers struct {
	secure, plain string
	authority     []byte
	files         files
	// shown is the last Authorization that each host was shown, where it was one.
	shown sync.Map
	// vault answers for a host of its own, where a test sets it.
	vault atomic.Pointer[spy]
}

// config is the operator's: what may be reached, and where it is here.
func (s *servers) config() string {
	var allow, pins strings.Builder
	for _, host := range []string{"www", "git", "npm", "pypi", "crates", "goproxy", "apt", "model", "vault"} {
		fmt.Fprintf(&allow, "%q, ", host+"."+domain+":443")
		fmt.Fprintf(&pins, "%q = %q\n", host+"."+domain+":443", s.secure)
	}
	for _, host := range []string{"www", "apt"} {
		fmt.Fprintf(&allow, "%q, ", host+"."+domain+":80/http")
		fmt.Fprintf(&pins, "%q = %q\n", host+"."+domain+":80", s.plain)
	}
	return fmt.Sprintf("[egress]\nallow = [%s]\n[egress.pin]\n%s", strings.TrimSuffix(allow.String(), ", "), pins.String())
}

func newServers(t *testing.T) *servers {
	t.Helper()
	authority, certificate := certificates(t)
	s := &servers{authority: authority, files: newFiles(t)}
	handler := s.handler(t)
	quiet := log.New(io.Discard, "", 0)
	secure := httptest.NewUnstartedServer(handler)
	secure.EnableHTTP2, secure.TLS, secure.Config.ErrorLog = true, &tls.Config{Certificates: []tls.Certificate{certificate}}, quiet
	secure.StartTLS()
	plain := httptest.NewServer(handler)
	t.Cleanup(func() { secure.Close(); plain.Close() })
	s.secure, s.plain = secure.Listener.Addr().String(), plain.Listener.Addr().String()
	return s
}

// handler answers by host, as a machine with many sites does.
func (s *servers) handler(t *testing.T) http.Handler {
	git, model := gitHandler(t), modelHandler(t)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			name = r.Host
		}
		if shown := r.Header.Get("Authorization"); shown != "" {
			s.shown.Store(name, shown)
		}
		switch site := strings.TrimSuffix(name, "."+domain); site {
		case "git":
			git.ServeHTTP(w, r)
		case "model":
			model.ServeHTTP(w, r)
		case "www":
			web(w, r)
		case "vault":
			s.vault.Load().ServeHTTP(w, r)
		default:
			body, ok := s.files[site+strings.Replace(r.URL.Path, "/./", "/", 1)] // apt's flat repositories
			if !ok {
				http.NotFound(w, r)
				return
			}
			if strings.HasSuffix(r.URL.Path, "/") {
				w.Header().Set("Content-Type", "text/html")
			}
			_, _ = w.Write(body)
		}
	})
}

// bigSize is a large file, in bytes.
const bigSize = 64 << 20

func web(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/hello":
		_, _ = io.WriteString(w, "hello from "+r.Host+"\n")
	case "/upload":
		sum := sha256.New()
		n, err := io.Copy(sum, r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, _ = fmt.Fprintf(w, "%d bytes %s\n", n, hex.EncodeToString(sum.Sum(nil)))
	case "/big":
		w.Header().Set("Content-Length", fmt.Sprint(bigSize))
		_, _ = io.CopyN(w, zeros{}, bigSize)
	case "/refuse":
		http.Error(w, "too large for us", http.StatusRequestEntityTooLarge)
	case "/stream":
		for i := range 5 {
			_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
		}
	case "/near":
		http.Redirect(w, r, "/hello", http.StatusFound)
	case "/away":
		http.Redirect(w, r, "https://elsewhere.test/", http.StatusFound)
	case "/socket":
		websocket(w, r)
	default:
		http.NotFound(w, r)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// modelHandler says one sentence in every dialect.
func modelHandler(t *testing.T) http.Handler {
	t.Helper()
	script, err := scriptedmodel.Read(strings.NewReader(`{"turns": [{"text": "the model works"}, {"text": "the model works"}]}`))
	must(t, err)
	return scriptedmodel.New(script)
}

// gitHandler serves a repository with git's own http-backend, pushes included.
func gitHandler(t *testing.T) http.Handler {
	t.Helper()
	out, err := exec.Command("git", "--exec-path").Output()
	must(t, err)
	root := t.TempDir()
	for _, args := range [][]string{
		{"init", "-q", "-b", "main", "work"}, {"-C", "work", "-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "-q", "--allow-empty", "-m", "first"},
		{"clone", "-q", "--bare", "work", "repo.git"}, {"-C", "repo.git", "config", "http.receivepack", "true"},
	} {
		command := exec.Command("git", args...)
		command.Dir = root
		if text, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, text)
		}
	}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"), Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_COUNT=1",
			"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // CGI wants a length, and a large push has none
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		backend.ServeHTTP(w, r)
	})
}

// certificates makes an authority of this run, and a certificate for all hosts.
func certificates(t *testing.T) ([]byte, tls.Certificate) {
	t.Helper()
	rootKey, root := key(t), template(1, "nacre test authority")
	root.IsCA, root.BasicConstraintsValid, root.KeyUsage = true, true, x509.KeyUsageCertSign
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, rootKey.Public(), rootKey)
	must(t, err)
	leafKey, leaf := key(t), template(2, domain)
	leaf.DNSNames = []string{domain, "*." + domain, "elsewhere.test"}
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, leafKey.Public(), rootKey)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER}),
		tls.Certificate{Certificate: slices.Concat([][]byte{leafDER}, [][]byte{rootDER}), PrivateKey: leafKey}
}

func key(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return k
}

func template(serial int64, name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}
