package main

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

const (
	sniffed     = 1024 // bytes in which an encoding is looked for
	maxJSONDeep = 48   // levels of a JSON document that is told as such
	maxJSONText = 90 << 10
)

// read takes the answer's body and tells it as the call wants it.
func (p *page) read(resp *http.Response, args fetchArgs) error {
	p.Headers = told(resp.Header)
	p.Type = clean(resp.Header.Get("Content-Type"))
	p.Type = p.Type[:min(len(p.Type), 200)]
	if args.Method == http.MethodHead {
		return nil
	}
	body, err := p.load(resp)
	if err != nil {
		return err
	}
	p.Bytes = len(body)
	limit := args.Max
	if limit <= 0 || limit > maxContent {
		limit = maxContent
	}
	if p.Type == "" {
		p.Type = http.DetectContentType(body)
	}
	media, _, err := mime.ParseMediaType(p.Type)
	if err != nil {
		media = "application/octet-stream"
	}
	switch {
	case args.As == "base64":
		p.encode(body, limit)
		return nil
	case args.As == "json":
		return p.asJSON(body, limit)
	case isHTML(media):
		return p.asText(body, limit, resp.Request.URL, args.As == "markdown")
	case isText(media):
		p.Content, err = decoded(body, p.Type, false)
		p.cut(limit)
		return err
	}
	p.Hint = `not text: fetch it with "as": "base64"`
	return nil
}

// load reads the body and takes off one layer of compression; both are bounded.
func (p *page) load(resp *http.Response) ([]byte, error) {
	in := bufio.NewReader(io.LimitReader(resp.Body, maxBody+1))
	plain, err := decoder(strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))), in)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(plain, maxBody+1))
	if len(body) > maxBody {
		body, p.Truncated = body[:maxBody], true
		return body, nil
	}
	if errors.Is(err, io.ErrUnexpectedEOF) && len(body) > 0 { // what came is told
		p.Truncated, err = true, nil
	}
	var corrupt flate.CorruptInputError
	if errors.As(err, &corrupt) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, zlib.ErrChecksum) {
		return nil, refuse("ENCODING", "The page is compressed and damaged")
	}
	return body, err
}

func decoder(name string, in *bufio.Reader) (io.Reader, error) {
	switch name {
	case "", "identity":
		return in, nil
	case "gzip", "x-gzip":
		if out, err := gzip.NewReader(in); err == nil {
			return out, nil
		} else if errors.Is(err, io.EOF) { // an empty body
			return in, nil
		}
	case "deflate": // zlib by the standard, raw by some servers
		if front, err := in.Peek(2); err == nil && front[0]&0x0f == 8 && (uint(front[0])<<8|uint(front[1]))%31 == 0 {
			if out, err := zlib.NewReader(in); err == nil {
				return out, nil
			}
		} else {
			return flate.NewReader(in), nil
		}
	}
	return nil, refuse("ENCODING", "The page is compressed in a way that was not asked for, or damaged")
}

func isHTML(media string) bool { return media == "text/html" || media == "application/xhtml+xml" }

func isText(media string) bool {
	switch {
	case strings.HasPrefix(media, "text/"), strings.HasSuffix(media, "+json"), strings.HasSuffix(media, "+xml"), strings.HasSuffix(media, "+yaml"):
		return true
	}
	switch media {
	case "application/json", "application/xml", "application/javascript", "application/x-javascript", "application/yaml", "application/x-yaml",
		"application/toml", "application/x-ndjson", "application/jsonl", "application/sql", "application/x-sh", "application/graphql",
		"application/x-www-form-urlencoded":
		return true
	}
	return false
}

// decoded is the text in UTF-8: by its byte order mark, the header, in HTML the
// meta element, and else as UTF-8, or Windows-1252 where it is none.
func decoded(body []byte, contentType string, html bool) (string, error) {
	enc, name, certain := charset.DetermineEncoding(body[:min(len(body), sniffed)], contentType)
	guessed := !certain && (!html || name == "utf-8" || name == "windows-1252") // the latter two are also what is named where nothing is
	switch {
	case name == "utf-8" && (certain || html), guessed && utf8.Valid(wholeRunes(body)):
		enc = unicode.UTF8BOM
	case guessed:
		enc, _ = charset.Lookup("windows-1252")
	}
	text, _, err := transform.Bytes(enc.NewDecoder(), body)
	if err != nil {
		return "", refuse("CHARSET", "The page's text could not be decoded: fetch it with \"as\": \"base64\"")
	}
	return clean(string(bytes.ToValidUTF8(text, []byte("�")))), nil
}

// wholeRunes leaves out a character that was cut off at the end of a body that
// is too long.
func wholeRunes(body []byte) []byte {
	for back := 1; back < utf8.UTFMax && len(body) == maxBody; back++ {
		if tail := body[len(body)-back:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				break
			}
			return body[:len(body)-back]
		}
	}
	return body
}

func (p *page) asText(body []byte, limit int, at *url.URL, markdown bool) error {
	text, err := decoded(body, p.Type, true)
	if err != nil {
		return err
	}
	w := &writer{limit: limit, base: at, markdown: markdown}
	w.convert(strings.NewReader(text))
	p.Title, p.Content = clean(w.title()), clean(w.text()) // again: entities can say anything
	p.Truncated = p.Truncated || w.full
	return nil
}

// cut keeps what may be told, in whole characters.
func (p *page) cut(limit int) {
	if len(p.Content) <= limit {
		return
	}
	for limit > 0 && !utf8.RuneStart(p.Content[limit]) {
		limit--
	}
	p.Content, p.Truncated = p.Content[:limit], true
}

// asJSON tells a document that is JSON as such.
func (p *page) asJSON(body []byte, limit int) error {
	text, err := decoded(body, "application/json; charset=utf-8", false)
	if err != nil {
		return err
	}
	if p.Truncated || len(text) > min(limit, maxJSONText) {
		return refuse("TOO_LARGE", "The document has %d bytes, and at most %d are told as JSON: fetch it as text", len(text), min(limit, maxJSONText))
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil || dec.More() {
		return refuse("NOT_JSON", "The document at %s, of type %.60s, is not one JSON value: fetch it as text", hostOf(p.URL), p.Type)
	}
	if deeper(value, maxJSONDeep) {
		return refuse("NOT_JSON", "The document is nested deeper than %d levels: fetch it as text", maxJSONDeep)
	}
	p.JSON, err = json.Marshal(value)
	return err
}

func hostOf(address string) string {
	if u, err := url.Parse(address); err == nil {
		return u.Host
	}
	return ""
}

func deeper(value any, levels int) bool {
	if levels == 0 {
		return true
	}
	switch v := value.(type) {
	case []any:
		for _, e := range v {
			if deeper(e, levels-1) {
				return true
			}
		}
	case map[string]any:
		for _, e := range v {
			if deeper(e, levels-1) {
				return true
			}
		}
	}
	return false
}

// clean drops what cannot be seen and can carry words: control characters,
// marks that reorder text, and the invisible copies of ASCII.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\r', r < 0x20, r >= 0x7f && r < 0xa0, r == 0xfeff, r == 0x200b, r >= 0x200e && r <= 0x200f,
			r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x206f, r >= 0xfe00 && r <= 0xfe0e, r >= 0xe0000 && r <= 0xe0fff, r == 0xad:
			return -1
		}
		return r
	}, s)
}

func isCertificate(err error) bool {
	var verification *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	return errors.As(err, &verification) || errors.As(err, &unknown) || errors.As(err, &host)
}
