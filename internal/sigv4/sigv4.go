// Package sigv4 signs requests as AWS reads them (Signature Version 4). It is pure.
package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/urlpath"
)

// TimeLayout is how X-Amz-Date is written.
const TimeLayout = "20060102T150405Z"

const (
	algorithm = "AWS4-HMAC-SHA256"
	dayLayout = "20060102"
	// unreserved are the characters that need no escape (RFC 3986, 2.3).
	unreserved = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~"
)

// Key is what signs, and for which service of which region. The token may be empty.
type Key struct {
	Access, Secret, Token nacre.Secret
	Region, Service       string
}

// Sign adds date, digest and signature. It writes the query as it is signed.
func Sign(r *http.Request, body []byte, key Key, now time.Time) {
	now = now.UTC()
	digest := sha256.Sum256(body)
	payload := hex.EncodeToString(digest[:])
	r.Header.Set("X-Amz-Date", now.Format(TimeLayout))
	r.Header.Set("X-Amz-Content-Sha256", payload)
	if token := key.Token.Reveal(); token != "" {
		r.Header.Set("X-Amz-Security-Token", token)
	}
	r.URL.RawQuery = canonicalQuery(r.URL.RawQuery)
	r.Header.Set("Authorization", Authorize(r, payload, key, now))
}

// Authorize is the Authorization header of a request whose other headers are set.
func Authorize(r *http.Request, payload string, key Key, now time.Time) string {
	names, lines := canonicalHeaders(r)
	request := strings.Join([]string{r.Method, canonicalPath(r, key.Service), r.URL.RawQuery, lines, names, payload}, "\n")
	hashed := sha256.Sum256([]byte(request))
	scope := strings.Join([]string{now.Format(dayLayout), key.Region, key.Service, "aws4_request"}, "/")
	text := strings.Join([]string{algorithm, now.Format(TimeLayout), scope, hex.EncodeToString(hashed[:])}, "\n")
	derived := []byte("AWS4" + key.Secret.Reveal())
	for part := range strings.SplitSeq(scope, "/") {
		derived = mac(derived, part)
	}
	return algorithm + " Credential=" + key.Access.Reveal() + "/" + scope +
		", SignedHeaders=" + names + ", Signature=" + hex.EncodeToString(mac(derived, text))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// canonicalPath is the path as the service encodes it: S3 once, all others
// once more than it is sent.
func canonicalPath(r *http.Request, service string) string {
	if service == "s3" {
		return encode(r.URL.Path, "/")
	}
	return encode(r.URL.EscapedPath(), "/")
}

// canonicalQuery sorts the parameters and encodes each anew, which is also
// what is sent: nothing is left to be read in two ways.
func canonicalQuery(query string) string {
	var pairs [][2]string
	for piece := range strings.SplitSeq(query, "&") {
		if piece == "" {
			continue
		}
		name, value, _ := strings.Cut(piece, "=")
		pairs = append(pairs, [2]string{encode(plusless(name), ""), encode(plusless(value), "")})
	}
	slices.SortFunc(pairs, func(a, b [2]string) int {
		if c := strings.Compare(a[0], b[0]); c != 0 {
			return c
		}
		return strings.Compare(a[1], b[1])
	})
	var b strings.Builder
	for i, p := range pairs {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(p[0] + "=" + p[1])
	}
	return b.String()
}

func plusless(s string) string {
	decoded, _ := urlpath.Unescape(strings.ReplaceAll(s, "+", " "))
	return decoded
}

// encode escapes all but the unreserved characters and those in more.
func encode(s, more string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if strings.IndexByte(unreserved, c) >= 0 || strings.IndexByte(more, c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', digits[c>>4], digits[c&15]})
	}
	return b.String()
}

// canonicalHeaders are the signed headers' names, and a line for each.
func canonicalHeaders(r *http.Request) (names, lines string) {
	signed := map[string]string{"host": r.Host}
	if r.ContentLength > 0 {
		signed["content-length"] = strconv.FormatInt(r.ContentLength, 10)
	}
	for name, values := range r.Header {
		lower := strings.ToLower(name)
		if strings.HasPrefix(lower, "x-amz-") || lower == "content-type" || lower == "content-md5" || lower == "range" {
			var folded []string
			for _, v := range values {
				folded = append(folded, strings.Join(strings.Fields(v), " "))
			}
			signed[lower] = strings.Join(folded, ",")
		}
	}
	var all []string
	var b strings.Builder
	for name := range signed {
		all = append(all, name)
	}
	slices.Sort(all)
	for _, name := range all {
		b.WriteString(name + ":" + signed[name] + "\n")
	}
	return strings.Join(all, ";"), b.String()
}
