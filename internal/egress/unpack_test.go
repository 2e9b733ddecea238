package egress_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/unpack"
)

const packedDecoy = "AKIADECOYDECOYDECOY"

// hoarder is a host that keeps what it gets, also of requests that were broken off.
type hoarder struct {
	mu     sync.Mutex
	bodies [][]byte
}

func (h *hoarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bodies = append(h.bodies, body)
}

func (h *hoarder) got() [][]byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bodies
}

// inspected is a proxy that looks for the decoy, as sessions do: also across pieces.
func inspected(t *testing.T, host *hoarder) *vault {
	t.Helper()
	srv := httptest.NewTLSServer(host)
	t.Cleanup(srv.Close)
	open := httptest.NewServer(host)
	t.Cleanup(open.Close)
	authority, err := egress.NewAuthority([]string{"example.com"}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	v := &vault{log: newLedger(), pool: x509.NewCertPool()}
	v.pool.AppendCertsFromPEM(authority.PEM())
	v.proxy, v.socket = start(t, egress.Options{
		Rules: []nacre.EgressRule{
			rule("example.com", 443, nacre.ProtocolTLS, pinOf(t, srv)), rule("plain.example", 80, nacre.ProtocolHTTP, pinOf(t, open)),
		},
		Record: v.log, Credentials: []egress.Credential{credential(srv)}, Authority: authority,
		Inspect: egress.Inspection{Each: func() func([]byte) error {
			var tail []byte
			return func(piece []byte) error {
				tail = append(tail[max(0, len(tail)-len(packedDecoy)):], piece...)
				if bytes.Contains(tail, []byte(packedDecoy)) {
					return errors.New("a decoy")
				}
				return nil
			}
		}},
	})
	return v
}

func packed(t *testing.T, open func(io.Writer) io.WriteCloser, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := open(&b)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }

func stored(w io.Writer) io.WriteCloser {
	z, _ := gzip.NewWriterLevel(w, gzip.NoCompression) // the level is one
	return z
}

func zlibbed(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }

func deflated(w io.Writer) io.WriteCloser {
	z, _ := flate.NewWriter(w, flate.BestCompression) // the level is one
	return z
}

// archive is a ZIP archive of files.
func archive(t *testing.T, files ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i, file := range files {
		w, err := z.Create(fmt.Sprintf("folder/file-%d", i))
		if err == nil {
			_, err = w.Write(file)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// pushed is the body of a git push: a line, a pack of blobs and deltas, and its sum.
func pushed(t *testing.T, objects ...[]byte) []byte {
	t.Helper()
	body := []byte("0067" + strings.Repeat("0", 40) + " " + strings.Repeat("a", 40) + " refs/heads/main\x00 report-status0000")
	body = append(body, "PACK\x00\x00\x00\x02"...)
	body = binary.BigEndian.AppendUint32(body, uint32(len(objects)))
	for i, object := range objects {
		kind, size := byte(3), len(object) // a blob
		if i > 0 && i == len(objects)-1 {
			kind = 7 // a delta of one that has a name
		}
		c := kind<<4 | byte(size&15)
		for size >>= 4; size > 0; size >>= 7 {
			body, c = append(body, c|0x80), byte(size&0x7f)
		}
		body = append(body, c)
		if kind == 7 {
			body = append(body, strings.Repeat("h", 20)...)
		}
		body = append(body, packed(t, zlibbed, object)...)
	}
	return append(body, noise(20)...)
}

// short is a text without its checksum.
func short(text []byte) []byte { return text[:len(text)-8] }

// noise does not compress.
func noise(n int) []byte {
	random := rand.NewChaCha8([32]byte{7})
	b := make([]byte, n)
	_, _ = random.Read(b) // never fails
	return b
}

// M-58: what must not leave is seen in a compressed body too, and nothing that
// says it has left.
func TestADecoyInACompressedBodyDoesNotLeave(t *testing.T) {
	decoy := []byte("key=" + packedDecoy)
	far := append(noise(300_000), decoy...)
	for name, c := range map[string]struct {
		coding string
		body   []byte
	}{
		"gzip":                      {"gzip", packed(t, gzipped, decoy)},
		"gzip that does not say so": {"", packed(t, gzipped, decoy)},
		"gzip in gzip":              {"gzip, gzip", packed(t, gzipped, packed(t, gzipped, decoy))},
		"gzip after another text":   {"gzip", append(packed(t, gzipped, []byte("x")), packed(t, gzipped, decoy)...)},
		"gzip in a form":            {"", append([]byte("--b\r\nContent-Type: application/gzip\r\n\r\n"), append(packed(t, gzipped, decoy), "\r\n--b--\r\n"...)...)},
		"gzip without compression":  {"", packed(t, stored, far)},
		"zlib":                      {"deflate", packed(t, zlibbed, decoy)},
		"zlib that does not say so": {"", packed(t, zlibbed, decoy)},
		"deflate":                   {"deflate", packed(t, deflated, decoy)},
		"zlib in gzip":              {"gzip", packed(t, gzipped, packed(t, zlibbed, decoy))},
		"far behind":                {"gzip", packed(t, gzipped, far)},
		"in the last of many":       {"gzip", append(bytes.Repeat(packed(t, gzipped, noise(3_000)), 100), packed(t, gzipped, far)...)},
		"cut off":                   {"gzip", short(packed(t, gzipped, far))},
		"zip":                       {"", archive(t, decoy)},
		"the last file of a zip":    {"", archive(t, noise(100_000), []byte("x"), far)},
		"zip in gzip":               {"gzip", packed(t, gzipped, archive(t, decoy))},
		"zip in zip":                {"", archive(t, archive(t, decoy))},
		"what git pushes":           {"", pushed(t, noise(100_000), nil, far, noise(100))},
		"a delta that git pushes":   {"", pushed(t, noise(100), append([]byte("\x90\x64\x7f"), decoy...))},
	} {
		t.Run(name, func(t *testing.T) {
			host := &hoarder{}
			v := inspected(t, host)
			for _, way := range []string{"h1", "h2", "plain"} {
				if answer, err := v.send(t, way, c.coding, bytes.NewReader(c.body)); err == nil && answer == http.StatusOK {
					t.Errorf("%s: have %d", way, answer)
				}
			}
			for _, body := range host.got() {
				if len(body) > 0 && bytes.HasSuffix(body, c.body[len(c.body)-40:]) {
					t.Errorf("the host got the end of it: %d of %d bytes", len(body), len(c.body))
				}
			}
		})
	}
}

// What holds nothing of the kind arrives byte for byte, compressed or not, in
// small pieces or in large ones.
func TestWhatIsCompressedArrivesAsItWas(t *testing.T) {
	text := bytes.Repeat([]byte("a line of text\n"), 20_000)
	magic := bytes.Repeat([]byte("\x1f\x8b\x08 not what it seems "), 5_000)
	for name, body := range map[string][]byte{
		"gzip": packed(t, gzipped, text), "noise in gzip": packed(t, gzipped, noise(500_000)), "zlib": packed(t, zlibbed, text),
		"looks like zlib": append([]byte("x\x9c"), text...), "looks like gzip": magic, "text": text, "one byte": []byte("x"), "nothing": nil,
		"the beginning of a text": packed(t, gzipped, text)[:30], "gzip and more": append(packed(t, gzipped, text), text...),
		"zip": archive(t, text, noise(100_000), nil), "zip of many": archive(t, make([][]byte, 3_000)...), "looks like zip": bytes.Repeat([]byte("PK\x03\x04 no"), 5_000),
		"what git pushes": pushed(t, text, nil, noise(100_000)), "looks like a pack": bytes.Repeat([]byte("PACK\x00\x00\x00\x02 PACK"), 5_000),
		"many texts": bytes.Repeat(packed(t, gzipped, []byte("a line")), 20_000),
	} {
		t.Run(name, func(t *testing.T) {
			host := &hoarder{}
			v := inspected(t, host)
			ways := []string{"h1", "h2", "plain"}
			for _, way := range ways {
				if answer, err := v.send(t, way, "", iotestOneByte{bytes.NewReader(body), len(body) < 1000}); err != nil || answer != http.StatusOK {
					t.Errorf("%s: have %d, %v", way, answer, err)
				}
			}
			if have := host.got(); len(have) != len(ways) {
				t.Fatalf("%d bodies", len(have))
			}
			for _, have := range host.got() {
				if !bytes.Equal(have, body) {
					t.Errorf("have %d bytes, want %d", len(have), len(body))
				}
			}
		})
	}
}

// A body that unpacks to more than anybody can look through is refused, in
// bounded time and memory.
func TestABodyThatUnpacksToTooMuchIsRefused(t *testing.T) {
	bomb := packed(t, gzipped, make([]byte, 300<<20))
	within := packed(t, gzipped, []byte("x"))
	for range 500 { // each in the stored text of the next
		within = packed(t, stored, append(noise(20), append(within, noise(20)...)...))
	}
	many := packed(t, gzipped, bytes.Repeat(packed(t, gzipped, make([]byte, 1<<20)), 4096))
	for name, body := range map[string][]byte{"one": bomb, "in gzip": packed(t, gzipped, bomb), "many in gzip": many, "within each other": within} {
		t.Run(name, func(t *testing.T) {
			host := &hoarder{}
			v := inspected(t, host)
			for _, way := range []string{"h1", "h2", "plain"} {
				if answer, err := v.send(t, way, "gzip", bytes.NewReader(body)); err == nil && answer == http.StatusOK {
					t.Errorf("%s: have %d", way, answer)
				}
			}
			for _, have := range host.got() {
				if bytes.Equal(have, body) {
					t.Error("the host got all of it")
				}
			}
		})
	}
}

// A body that is nothing but beginnings of compressed texts takes no more than
// one that is a text.
func TestABodyOfBeginningsTakesLittle(t *testing.T) {
	const size, most = 1 << 20, 128 << 20
	for name, begin := range map[string]string{
		"files of an archive":                   "PK\x03\x04",
		"files of an archive that are deflated": "PK\x03\x04\x14\x00\x00\x00\x08\x00" + strings.Repeat("\x00", 20) + "KL",
		"files that are stored":                 "PK\x03\x04\x14\x00\x00\x00\x00\x00" + strings.Repeat("\x00", 20),
		"gzip":                                  "\x1f\x8b\x08",
		"gzip, with what follows":               "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\xff",
		"packs":                                 "PACK\x00\x00\x00\x02\x00\x00\x00\x01",
		"packs of one object":                   "PACK\x00\x00\x00\x02\x00\x00\x00\x01\x31x\x9c",
		"gzip that says nothing":                string(packed(t, gzipped, nil)),
	} {
		body := bytes.Repeat([]byte(begin), size/len(begin))
		for _, piece := range []int{32 << 10, 1000} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := egress.Unpacked(body, "", piece)
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > most {
				t.Errorf("%s in pieces of %d: %d MB were made (%v)", name, piece, took>>20, err)
			}
		}
	}
}

// However texts lie within each other, a body has only so many decoders.
func TestABodyHasOnlySoManyDecoders(t *testing.T) {
	t.Parallel()
	body := make([]byte, 60_000) // more than a decoder holds back
	for range 7 {                // each in the stored text of the next, of which none ends
		head := []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x00")
		head = binary.LittleEndian.AppendUint16(head, uint16(len(body)))
		body = append(binary.LittleEndian.AppendUint16(head, ^uint16(len(body))), body...)
	}
	var mu sync.Mutex
	open, most := 0, 0
	refused := errors.New("refused")
	search := unpack.Search{
		Inspect: func() (func([]byte) error, func()) {
			mu.Lock()
			defer mu.Unlock()
			open++
			most = max(most, open)
			return func([]byte) error { return nil }, func() { mu.Lock(); open--; mu.Unlock() }
		},
		Refuse: func(string) error { return refused },
	}
	err := search.Next(body)
	if end := search.Finish(); err == nil {
		err = end
	}
	if most > 16 || !errors.Is(err, refused) || open != 0 {
		t.Errorf("%d decoders at once, %d left, %v", most, open, err)
	}
}

// iotestOneByte is a reader without a length, of one byte at a time if so wanted.
type iotestOneByte struct {
	io.Reader
	one bool
}

// Read implements io.Reader.
func (r iotestOneByte) Read(p []byte) (int, error) {
	if r.one && len(p) > 1 {
		p = p[:1]
	}
	return r.Reader.Read(p)
}

// send posts a body in one of three ways, and gives the answer's code.
func (v *vault) send(t *testing.T, way, coding string, body io.Reader) (int, error) {
	t.Helper()
	url := "https://example.com/user"
	if way == "plain" {
		url = "http://plain.example/user"
	}
	request, err := http.NewRequest(http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	if coding != "" {
		request.Header.Set("Content-Encoding", coding)
	}
	answer, err := v.client(t, way == "h2").Do(request)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, answer.Body.Close()
}

// FuzzUnpacking wants every body to arrive whole or not at all, and no decoder
// to stay behind.
func FuzzUnpacking(f *testing.F) {
	f.Add([]byte("\x1f\x8b\x08"), "gzip", uint8(1))
	f.Add([]byte("x\x9c"), "deflate", uint8(1))
	f.Add([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x02\x31x\x9ck\x00\x00b\x00b\x61\x01"), "", uint8(3))
	f.Add([]byte("PK\x03\x04\x14\x00\x08\x00\x08\x00"+strings.Repeat("\x00", 16)+"\x01\x00\x00\x00x\x03\x00"), "", uint8(2))
	f.Add([]byte(strings.Repeat("\x1f\x8b\x08\x00", 30)), "", uint8(3))
	f.Add([]byte("\x28\xb5\x2f\xfd\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff]\x00\x00BZh\x1f\x9d"), "", uint8(2))
	f.Fuzz(func(t *testing.T, body []byte, coding string, piece uint8) {
		have, err := egress.Unpacked(body, coding, int(piece)+1)
		if err == nil && !bytes.Equal(have, body) {
			t.Errorf("have %q, want %q", have, body)
		}
		if !bytes.HasPrefix(body, have) {
			t.Errorf("%q is not of %q", have, body)
		}
	})
}
