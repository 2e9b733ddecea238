package egress

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// maxSigned is the largest body that is held in memory to sign it, in bytes.
	maxSigned = 16 << 20
	// maxBuffered is what all such bodies of a session may take at once, in bytes.
	maxBuffered = 128 << 20

	sigV4Algorithm = "AWS4-HMAC-SHA256"
	sigV4Time      = "20060102T150405Z"
	sigV4Day       = "20060102"
)

// sign holds the body and signs the request that is sent: its method, path,
// query, host and the headers that have a meaning to the service.
func (o *opened) sign(q *order, m Material) error {
	r := q.request
	if strings.Contains(lowerASCII(strings.Join(r.Header["Content-Encoding"], ",")), "aws-chunked") {
		return refusal(ReasonMalformed, "a body in aws-chunked coding is signed by its sender: turn it off, as AWS_REQUEST_CHECKSUM_CALCULATION=when_required does")
	}
	body, err := o.hold(q)
	if err != nil {
		return err
	}
	r.ContentLength, r.Body = int64(len(body)), io.NopCloser(bytes.NewReader(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	if len(body) == 0 {
		r.Body = http.NoBody
	}
	signV4(r, body, q.credential, m, o.proxy.opts.Now())
	return nil
}

// hold reads the whole body, as far as there is room.
func (o *opened) hold(q *order) ([]byte, error) {
	defer func() { _ = q.request.Body.Close() }() // ends what looks into it
	var body bytes.Buffer
	for body.Len() <= maxSigned {
		if o.proxy.buffered.Add(bufferSize) > maxBuffered {
			o.proxy.buffered.Add(-bufferSize)
			return nil, refusal(ReasonBusy, "too many bodies wait to be signed")
		}
		q.held += bufferSize
		n, err := io.CopyN(&body, q.request.Body, bufferSize)
		if n < bufferSize && err == io.EOF { //nolint:errorlint // CopyN's own
			return body.Bytes(), nil
		}
		var found *reasonError
		if errors.As(err, &found) {
			return nil, err
		}
		if err != nil {
			return nil, refusal(ReasonMalformed, "the body did not come whole")
		}
	}
	return nil, refusal(ReasonTooLarge, "a body that is signed has at most 16 MiB")
}

// signV4 adds date, digest and signature.
func signV4(r *http.Request, body []byte, c Credential, m Material, now time.Time) {
	now = now.UTC()
	digest := sha256.Sum256(body)
	payload := hex.EncodeToString(digest[:])
	r.Header.Set("X-Amz-Date", now.Format(sigV4Time))
	r.Header.Set("X-Amz-Content-Sha256", payload)
	if token := m.SessionToken.Reveal(); token != "" {
		r.Header.Set("X-Amz-Security-Token", token)
	}
	r.URL.RawQuery = canonicalQuery(r.URL.RawQuery)
	r.Header.Set("Authorization", authorizeV4(r, payload, c, m, now))
}

// authorizeV4 is the Authorization header of a request whose other headers are set.
func authorizeV4(r *http.Request, payload string, c Credential, m Material, now time.Time) string {
	names, lines := canonicalHeaders(r)
	request := strings.Join([]string{r.Method, canonicalPath(r, c.Service), r.URL.RawQuery, lines, names, payload}, "\n")
	hashed := sha256.Sum256([]byte(request))
	scope := strings.Join([]string{now.Format(sigV4Day), c.Region, c.Service, "aws4_request"}, "/")
	text := strings.Join([]string{sigV4Algorithm, now.Format(sigV4Time), scope, hex.EncodeToString(hashed[:])}, "\n")
	key := []byte("AWS4" + m.Value.Reveal())
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	return sigV4Algorithm + " Credential=" + m.AccessKey.Reveal() + "/" + scope +
		", SignedHeaders=" + names + ", Signature=" + hex.EncodeToString(mac(key, text))
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
		return encodeV4(r.URL.Path, "/")
	}
	return encodeV4(r.URL.EscapedPath(), "/")
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
		pairs = append(pairs, [2]string{encodeV4(plusless(name), ""), encodeV4(plusless(value), "")})
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
	decoded, _ := unescape(strings.ReplaceAll(s, "+", " "))
	return decoded
}

// encodeV4 escapes all but the unreserved characters and those in more.
func encodeV4(s, more string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if isLetterOrDigit(c) || strings.IndexByte("-_.~", c) >= 0 || strings.IndexByte(more, c) >= 0 {
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
		lower := lowerASCII(name)
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
