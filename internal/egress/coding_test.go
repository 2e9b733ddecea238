package egress_test

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"
)

// opaqueDecoys say key= and the decoy, packed by the programs of these names; lz4, which would leave
// it as it is, something else.
func opaqueDecoys(t *testing.T) map[string][]byte {
	t.Helper()
	bodies := map[string][]byte{}
	for name, text := range map[string]string{
		"zstd":           "KLUv/QRYnQAAaGtleT1BS0lBREVDT1kBANjKF9JPSnU=",
		"zstd, no check": "KLUv/QCInQAAaGtleT1BS0lBREVDT1kBANjKFw==",
		"xz":             "/Td6WFoAAATm1rRGAgAhARYAAAB0L+Wj4AAWABNdADWZS5YKSl3attd4HsKzIVCIAAAAAAJRHYUiKNYmAAEvF4EISbEftvN9AQAAAAAEWVo=",
		"bzip2":          "QlpoOTFBWSZTWdTsW4sAAAqPgAACLiiAIAIIACAgADEDQNAjUybQaIuR/GoXFjAiuF3JFOFCQ1Oxbiw=",
		"lz4":            "BCJNGGRApxcAAADfb3RoZXIgd29yZHMsIA0AAFB3b3JkcwAAAAD7OyV7",
		"an old lz4":     "AiFMGBcAAADfb3RoZXIgd29yZHMsIA0AAFB3b3Jkcw==",
		"lzma":           "XQAAgAD//////////wA1mUuWCkpd2rbXeB7CsyFRnbkb//99bAAA",
		"bzip2 in a ZIP": "UEsDBC4AAAAMAHoRdl3Q/zpaOwAAABcAAAAFAAAAYS50eHRCWmg5MUFZJlNZ1OxbiwAACo+AAAIuKIAgAggAICAAMQNA0CNTJtBoi5H8ahcWMCK4XckU4UJDU7FuLFBLAQIuAy4AAAAMAHoRdl3Q/zpaOwAAABcAAAAFAAAAAAAAAAAAAACAAQAAAABhLnR4dFBLBQYAAAAAAQABADMAAABeAAAAAAA=",
		"lzma in a ZIP":  "UEsDBD8AAgAOAHoRdl3Q/zpaIwAAABcAAAAFAAAAYS50eHQJBAUAXQAAgAAANZlLlgpKXdq213gewrMhUZ25G///fWwAAFBLAQI/Az8AAgAOAHoRdl3Q/zpaIwAAABcAAAAFAAAAAAAAAAAAAACAAQAAAABhLnR4dFBLBQYAAAAAAQABADMAAABGAAAAAAA=",
	} {
		body, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		bodies[name] = body
	}
	encrypted := archive(t, []byte("x"))
	encrypted[6] |= 1
	bodies["an encrypted ZIP"] = encrypted
	bodies["7z"] = append([]byte("7z\xbc\xaf\x27\x1c\x00\x04"), noise(100)...)
	bodies["rar"] = append([]byte("Rar!\x1a\x07\x01\x00"), noise(100)...)
	bodies["compress"] = append([]byte("\x1f\x9d\x90"), noise(100)...)
	return bodies
}

// M-22: files that nothing here unpacks are uploaded to a host that holds a credential, too. A
// release has .deb and .tar.xz files, and who wants to hide a decoy can encrypt it.
func TestAFileThatIsPackedInAnotherWayArrives(t *testing.T) {
	bodies := opaqueDecoys(t)
	bodies["a project's own files, that git pushes"] = pushed(t, bodies["xz"], bodies["zstd"], []byte("x"))
	bodies["noise"] = noise(4 << 20)
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			host := &hoarder{}
			v := inspected(t, host)
			for _, way := range []string{"h1", "h2", "plain"} {
				if have, err := v.send(t, way, "", bytes.NewReader(body)); err != nil || have != http.StatusOK {
					t.Errorf("%s: have %d, %v", way, have, err)
				}
			}
			for _, got := range host.got() {
				if !bytes.Equal(got, body) {
					t.Errorf("the host got %d bytes of %d", len(got), len(body))
				}
			}
		})
	}
}

// M-58: what a body is said to be in counts, where nothing in it tells.
func TestABodyInACodingThatIsNotKnownIsRefusedWhereItMustBe(t *testing.T) {
	for name, c := range map[string]struct {
		header, coding string
		want           int
	}{
		"brotli":                         {"Content-Encoding", "br", 415},
		"brotli in gzip":                 {"Content-Encoding", "br, gzip", 415},
		"in capitals":                    {"Content-Encoding", "BR", 415},
		"zstd":                           {"Content-Encoding", "zstd", 415},
		"none that is known":             {"Content-Encoding", "x-own", 415},
		"chunks that hide words":         {"Content-Encoding", "aws-chunked", 415},
		"three codings":                  {"Content-Encoding", "gzip, gzip, gzip", 415},
		"messages in brotli":             {"Connect-Content-Encoding", "br", 415},
		"messages in snappy":             {"Grpc-Encoding", "snappy", 415},
		"messages in gzip":               {"Grpc-Encoding", "gzip", 200},
		"messages as they are":           {"Grpc-Encoding", "identity", 200},
		"no coding at all":               {"Content-Encoding", "identity", 200},
		"a charset by mistake":           {"Content-Encoding", "UTF-8", 200},
		"gzip, which it turns out it is": {"Content-Encoding", "gzip", 200},
	} {
		t.Run(name, func(t *testing.T) {
			host := &hoarder{}
			v := inspected(t, host)
			for _, h2 := range []bool{false, true} {
				request, err := http.NewRequest(http.MethodPost, "https://example.com/user", bytes.NewReader(packed(t, gzipped, []byte("a text"))))
				if err != nil {
					t.Fatal(err)
				}
				request.Header.Set(c.header, c.coding)
				answer, err := v.client(t, h2).Do(request)
				if err != nil {
					t.Fatal(err)
				}
				text, _ := io.ReadAll(answer.Body)
				_ = answer.Body.Close()
				if answer.StatusCode != c.want {
					t.Errorf("have %d, want %d: %s", answer.StatusCode, c.want, text)
				}
				if c.want == 415 && (!strings.Contains(string(text), "Send it in gzip") || answer.Header.Get("Accept-Encoding") == "") {
					t.Errorf("it does not say what to do: %s", text)
				}
			}
		})
	}
}

// M-58: bare deflate has no magic number, and what says that a body is in it may
// be the second header or the second word.
func TestADecoyInDeflateIsSeenWhereverThatIsSaid(t *testing.T) {
	inner := packed(t, deflated, []byte("key="+packedDecoy))
	for name, c := range map[string]struct {
		codings []string
		body    []byte
	}{
		"the first of two": {[]string{"deflate, gzip"}, packed(t, gzipped, inner)},
		"in a second line": {[]string{"identity", "deflate"}, inner},
		"behind no coding": {[]string{"identity,deflate"}, inner},
		"behind a stored block that looks like zlib's head": {[]string{"deflate"}, append([]byte("\x78\x01\x00\xfe\xffx"), inner...)},
		"within each other": {[]string{"deflate, deflate"}, packed(t, deflated, inner)},
	} {
		t.Run(name, func(t *testing.T) {
			host := &hoarder{}
			v := inspected(t, host)
			for _, url := range []string{"https://example.com/user", "http://plain.example/user"} {
				request, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(c.body))
				if err != nil {
					t.Fatal(err)
				}
				request.Header["Content-Encoding"] = c.codings
				if answer, err := v.client(t, false).Do(request); err == nil {
					_ = answer.Body.Close()
					if answer.StatusCode == http.StatusOK {
						t.Errorf("%s: have 200", url)
					}
				}
			}
			for _, got := range host.got() {
				if bytes.Equal(got, c.body) {
					t.Error("the host got all of it")
				}
			}
		})
	}
}
