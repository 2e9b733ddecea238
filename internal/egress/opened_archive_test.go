package egress_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// tarred is a tar archive of files.
func tarred(t *testing.T, files ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i, file := range files {
		err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("folder/%d", i), Mode: 0o644, Size: int64(len(file))})
		if err == nil {
			_, err = w.Write(file)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// archives are files that hold a text, as hosts offer them: in no Content-Encoding.
func archives(t *testing.T, text []byte) map[string][]byte {
	t.Helper()
	far := slices.Concat(noise(300_000), text, noise(300_000))
	return map[string][]byte{
		"gzip":                       packed(t, gzipped, text),
		"gzip, far within":           packed(t, gzipped, far),
		"gzip without compression":   packed(t, stored, far),
		"the second gzip of a file":  append(packed(t, gzipped, noise(1000)), packed(t, gzipped, text)...),
		"tar and gzip":               packed(t, gzipped, tarred(t, noise(1000), text)),
		"gzip in tar":                tarred(t, noise(1000), packed(t, gzipped, far), noise(1000)),
		"zip":                        archive(t, text),
		"the last file of a zip":     archive(t, noise(100_000), []byte("x"), far),
		"zip in zip":                 archive(t, archive(t, text)),
		"gzip in zip":                archive(t, packed(t, gzipped, far)),
		"zip in gzip":                packed(t, gzipped, archive(t, far)),
		"zlib":                       packed(t, zlibbed, text),
		"gzip, cut before its end":   short(packed(t, gzipped, far)),
		"gzip behind a text":         append([]byte("a line of text\n"), packed(t, gzipped, text)...),
		"in base64 and UTF-16, gzip": packed(t, gzipped, []byte("\xff\xfe"+lined(string(text), 1, "\x00"))),
	}
}

// offering answers with a body, in pieces.
func offering(body []byte, size int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		for rest := body; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			_, _ = w.Write(rest[:min(size, len(rest))])
			w.(http.Flusher).Flush()
		}
	}
}

// M-22: an archive that holds the credential does not arrive, nor the part of it
// that would be unpacked to the credential.
func TestAnArchiveWithTheCredentialDoesNotArrive(t *testing.T) {
	for name, body := range archives(t, []byte("token = "+theSecret+"\n")) {
		for _, size := range []int{1 << 20, 1000} {
			t.Run(fmt.Sprintf("%s in pieces of %d", name, size), func(t *testing.T) {
				v := newVault(t, offering(body, size), nil)
				for _, h2 := range []bool{false, true} {
					resp, err := v.client(t, h2).Get("https://example.com/user")
					if err != nil {
						continue // cut before its head
					}
					have, err := io.ReadAll(resp.Body)
					_ = resp.Body.Close()
					if resp.StatusCode == 200 && (err == nil || len(have) >= len(body)-100) {
						t.Errorf("HTTP/2 %v: %d of %d bytes, %v", h2, len(have), len(body), err)
					}
					if begun := inGzip(have); strings.Contains(begun, theSecret[:6]) {
						t.Errorf("HTTP/2 %v: what arrived unpacks to %q…", h2, theSecret[:6])
					}
				}
			})
		}
	}
}

// inGzip is what can be had of a file that was cut.
func inGzip(file []byte) string {
	z, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		return ""
	}
	text, _ := io.ReadAll(z) // as far as it goes
	return string(text)
}

// Every archive that does not hold it arrives byte for byte, and so does what
// only begins like one.
func TestAnArchiveWithoutTheCredentialArrives(t *testing.T) {
	bodies := archives(t, []byte("token = none of yours\n"))
	bodies["nothing but small texts"] = bytes.Repeat(packed(t, gzipped, []byte("a line")), 5_000)
	bodies["what only begins like one"] = bytes.Repeat([]byte("\x1f\x8b\x08 PK\x03\x04 no "), 2_000)
	bodies["a large file of little"] = packed(t, gzipped, make([]byte, 32<<20))
	bodies["in xz"] = opaqueDecoys(t)["xz"]
	for name, body := range bodies {
		for _, size := range []int{1 << 20, 1000} {
			t.Run(fmt.Sprintf("%s in pieces of %d", name, size), func(t *testing.T) {
				v := newVault(t, offering(body, size), nil)
				for _, h2 := range []bool{false, true} {
					resp, err := v.client(t, h2).Get("https://example.com/user")
					if err != nil {
						t.Fatal(err)
					}
					have, err := io.ReadAll(resp.Body)
					_ = resp.Body.Close()
					if err != nil || resp.StatusCode != 200 || !bytes.Equal(have, body) {
						t.Errorf("HTTP/2 %v: %d, %d of %d bytes, %v", h2, resp.StatusCode, len(have), len(body), err)
					}
				}
			})
		}
	}
}

// M-22: an archive cannot be had in parts, of which only the first can be unpacked.
func TestAnArchiveDoesNotArriveInParts(t *testing.T) {
	text := slices.Concat(noise(1000), []byte(theSecret), noise(1000))
	files := map[bool][]byte{false: packed(t, gzipped, text), true: packed(t, stored, text)}
	for name, c := range map[string]struct {
		file, kind, ranges string
		want               int
	}{
		"the middle, by its type":    {"x", "application/gzip", "bytes=600-", 502},
		"the end, by its type":       {"x", "application/zip", "bytes=-900", 502},
		"the middle, by its name":    {"x.tar.gz", "application/octet-stream", "bytes=600-", 502},
		"the beginning":              {"x.tar.gz", "application/gzip", "bytes=0-599", 206},
		"of something else":          {"x.bin", "application/octet-stream", "bytes=600-", 206},
		"of a picture":               {"x.png", "image/png", "bytes=600-700", 206},
		"half of the key at its end": {"stored.gz", "application/gzip", fmt.Sprintf("bytes=0-%d", 10+5+1000+8), 502},
		"the beginning and the key":  {"x.tar.gz", "application/gzip", "bytes=0-1900", 502},
	} {
		t.Run(name, func(t *testing.T) {
			file := files[c.file == "stored.gz"]
			v := newVault(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				w.Header().Set("Content-Disposition", `attachment; filename="`+c.file+`"`)
				http.ServeContent(w, r, c.file, time.Time{}, bytes.NewReader(file))
			}, nil)
			req, _ := http.NewRequest("GET", "https://example.com/user", nil)
			req.Header.Set("Range", c.ranges)
			resp, err := v.client(t, true).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			have, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if c.want == 206 && (resp.StatusCode != 206 || err != nil) || c.want == 502 && err == nil && resp.StatusCode != 502 {
				t.Errorf("have %d, %d bytes, %v", resp.StatusCode, len(have), err)
			}
			if strings.Contains(inGzip(have), theSecret[:6]) {
				t.Error("what arrived unpacks to the credential")
			}
		})
	}
}
