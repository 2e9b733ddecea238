package audit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
)

// version of the format, in every line, head and receipt.
const version = 1

// The domains keep a hash, a MAC or a signature from being taken for another.
const (
	recordDomain  = "nacre-audit-record-v1\n"
	macDomain     = "nacre-audit-mac-v1\n"
	headDomain    = "nacre-audit-head-v1\n"
	receiptDomain = "nacre-audit-receipt-v1\n"
)

// timeForm is the only form of a time: UTC with nine digits of a second.
const timeForm = "2006-01-02T15:04:05.000000000Z"

// The fixed end of a line: two members that follow the sorted ones.
const (
	hashMember = `,"record_hash":"`
	macMember  = `","mac":"`
	lineEnd    = `"}`
	suffixLen  = len(hashMember) + 2*sha256.Size + len(macMember) + 2*sha256.Size + len(lineEnd)
)

var kindForm = regexp.MustCompile(`^[a-z][a-z0-9._-]{0,63}$`)

// Digest is a SHA-256 digest; it prints and marshals as hex.
type Digest [sha256.Size]byte

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText implements encoding.TextMarshaler.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText accepts exactly 64 lower-case hex digits.
func (d *Digest) UnmarshalText(text []byte) error {
	n, err := hex.Decode(d[:], text[:min(len(text), 2*len(d))])
	if err != nil || n != len(d) || d.String() != string(text) {
		return fmt.Errorf("digest %.70q: not 64 lower-case hex digits", text)
	}
	return nil
}

// Entry is one record as it stands in a chain.
type Entry struct {
	Seq uint64 `json:"seq"`
	nacre.Record
	PrevHash   Digest `json:"prev_hash"`
	RecordHash Digest `json:"record_hash"`
	MAC        Digest `json:"mac"`
}

// body is a record in canonical form with gaps for what only its place in a
// chain gives: prev_hash and seq.
type body struct{ toHash, toSeq, toEnd []byte }

func (b body) size() int {
	return len(b.toHash) + len(b.toSeq) + len(b.toEnd) + 2*sha256.Size + 60 + suffixLen
}

// encode checks the record and puts it in canonical form: keys sorted, empty members left out.
func encode(r nacre.Record) (body, error) {
	if !kindForm.MatchString(string(r.Kind)) {
		return body{}, fmt.Errorf("%w: kind %.70q", ErrRecord, r.Kind)
	}
	if r.Stage < 0 || r.Stage > 99 {
		return body{}, fmt.Errorf("%w: stage %d", ErrRecord, r.Stage)
	}
	t := r.Time.UTC()
	if t.Year() < 1970 || t.Year() > 9999 {
		return body{}, fmt.Errorf("%w: time %v", ErrRecord, r.Time)
	}
	detail, err := canonicalDetail(r.Detail)
	if err != nil {
		return body{}, err
	}
	one := appendMember(make([]byte, 0, 256+len(detail)), "correlation", string(r.Correlation))
	if len(detail) > 0 {
		one = append(append(one, `,"detail":`...), detail...)
	}
	one = appendMember(one, "group", string(r.Group))
	one = appendMember(one, "kind", string(r.Kind))
	one = appendMember(one, "outcome", r.Outcome)
	one[0] = '{'
	two := appendMember(nil, "reason", r.Reason)
	three := appendMember(make([]byte, 0, 128), "session", string(r.Session))
	three = appendMember(three, "source", r.Source)
	if r.Stage > 0 {
		three = strconv.AppendInt(append(three, `,"stage":`...), int64(r.Stage), 10)
	}
	three = append(t.AppendFormat(append(three, `,"time":"`...), timeForm), '"')
	three = appendMember(three, "topic", r.Topic)
	three = append(three, `,"v":1`...)
	return body{one, two, three}, nil
}

func canonicalDetail(raw json.RawMessage) ([]byte, error) {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if raw[0] != '{' {
		return nil, fmt.Errorf("%w: detail is not a JSON object", ErrRecord)
	}
	detail, err := canonical(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: detail: %w", ErrRecord, err)
	}
	if len(detail) > MaxDetail {
		return nil, fmt.Errorf("%w: detail of %d bytes, at most %d", ErrRecord, len(detail), MaxDetail)
	}
	return detail, nil
}

// appendMember appends a text member with a comma before it, or nothing if it is empty.
func appendMember(dst []byte, key, value string) []byte {
	if value == "" {
		return dst
	}
	dst = append(append(append(dst, ',', '"'), key...), '"', ':')
	return appendText(dst, cut(strings.ToValidUTF8(value, "\uFFFD")))
}

// cut shortens a text to MaxText bytes and says so in its end. An agent's long
// words must not be able to keep what it did out of the chain.
func cut(s string) string {
	if len(s) <= MaxText {
		return s
	}
	mark := fmt.Sprintf(" [cut: %d bytes]", len(s))
	end := MaxText - len(mark)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}

// sealer gives records their place in a chain.
type sealer struct {
	next uint64 // seq of the next record
	prev Digest // hash of the record before it
	mac  hash.Hash
}

func newSealer(mac []byte) *sealer { return &sealer{mac: hmac.New(sha256.New, mac)} }

// seal appends the record's line to dst, newline included.
func (s *sealer) seal(dst []byte, b body) []byte {
	start := len(dst)
	dst = append(dst, b.toHash...)
	dst = hex.AppendEncode(append(dst, `,"prev_hash":"`...), s.prev[:])
	dst = append(append(dst, '"'), b.toSeq...)
	dst = strconv.AppendUint(append(dst, `,"seq":`...), s.next, 10)
	dst = append(dst, b.toEnd...)
	hash := recordHash(dst[start:])
	dst = hex.AppendEncode(append(dst, hashMember...), hash[:])
	mac := s.sum(hash)
	dst = hex.AppendEncode(append(dst, macMember...), mac[:])
	s.next, s.prev = s.next+1, hash
	return append(dst, lineEnd+"\n"...)
}

func (s *sealer) sum(hash Digest) (mac Digest) {
	s.mac.Reset()
	s.mac.Write([]byte(macDomain))
	s.mac.Write(hash[:])
	s.mac.Sum(mac[:0])
	return mac
}

func recordHash(body []byte) Digest { return domainHash(recordDomain, body) }

func domainHash(domain string, data []byte) (sum Digest) {
	h := sha256.New()
	_, _ = io.WriteString(h, domain) // a hash takes everything
	h.Write(data)
	h.Sum(sum[:0])
	return sum
}

// line is how a record is read back, before it is known to be canonical.
type line struct {
	Correlation nacre.Correlation `json:"correlation"`
	Detail      json.RawMessage   `json:"detail"`
	Group       nacre.Group       `json:"group"`
	Kind        nacre.Kind        `json:"kind"`
	Outcome     string            `json:"outcome"`
	PrevHash    Digest            `json:"prev_hash"`
	Reason      string            `json:"reason"`
	Seq         uint64            `json:"seq"`
	Session     nacre.SessionID   `json:"session"`
	Source      string            `json:"source"`
	Stage       int               `json:"stage"`
	Time        string            `json:"time"`
	Topic       string            `json:"topic"`
	V           int               `json:"v"`
}

// decode reads a line without its newline. It accepts only bytes that encode
// would have written, and only with the hash that belongs to them. The MAC is
// the caller's to check.
func decode(raw []byte) (Entry, error) {
	if len(raw) >= MaxLine || len(raw) <= suffixLen {
		return Entry{}, fmt.Errorf("line of %d bytes", len(raw))
	}
	text, suffix := raw[:len(raw)-suffixLen], raw[len(raw)-suffixLen:]
	hash, mac, err := decodeSuffix(suffix)
	if err != nil {
		return Entry{}, err
	}
	var l line
	if err := strictUnmarshal(append(bytes.Clone(text), '}'), &l); err != nil {
		return Entry{}, err
	}
	at, err := time.Parse(timeForm, l.Time)
	if err != nil {
		return Entry{}, fmt.Errorf("time is not in the form %s", timeForm)
	}
	e := Entry{Seq: l.Seq, PrevHash: l.PrevHash, RecordHash: hash, MAC: mac, Record: nacre.Record{
		Kind: l.Kind, Time: at, Group: l.Group, Session: l.Session, Source: l.Source, Topic: l.Topic,
		Correlation: l.Correlation, Stage: l.Stage, Outcome: l.Outcome, Reason: l.Reason, Detail: l.Detail,
	}}
	if l.V != version {
		return Entry{}, fmt.Errorf("version %d: this verifier knows version %d", l.V, version)
	}
	if err := e.sameBytes(text); err != nil {
		return Entry{}, err
	}
	if recordHash(text) != hash {
		return Entry{}, fmt.Errorf("record_hash does not match the record")
	}
	return e, nil
}

func decodeSuffix(suffix []byte) (hash, mac Digest, err error) {
	const macAt = len(hashMember) + 2*sha256.Size
	if !bytes.HasPrefix(suffix, []byte(hashMember)) || !bytes.HasPrefix(suffix[macAt:], []byte(macMember)) ||
		!bytes.HasSuffix(suffix, []byte(lineEnd)) {
		return hash, mac, fmt.Errorf("line does not end in record_hash and mac")
	}
	if err := hash.UnmarshalText(suffix[len(hashMember):macAt]); err != nil {
		return hash, mac, err
	}
	err = mac.UnmarshalText(suffix[macAt+len(macMember) : len(suffix)-len(lineEnd)])
	return hash, mac, err
}

// sameBytes refuses a line that encode would have written differently. That
// one comparison covers duplicate keys, order, white space, escapes and floats.
func (e Entry) sameBytes(text []byte) error {
	b, err := encode(e.Record)
	if err != nil {
		return err
	}
	s := sealer{next: e.Seq, prev: e.PrevHash, mac: sha256.New()}
	if have := s.seal(nil, b); !bytes.Equal(have[:len(have)-suffixLen-1], text) {
		return fmt.Errorf("not in canonical form")
	}
	return nil
}

// strictUnmarshal refuses keys that v does not know.
func strictUnmarshal(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("not a document of this format: %w", err)
	}
	return nil
}

func verifySignature(public ed25519.PublicKey, domain string, signed []byte, signature string) error {
	raw, err := hex.DecodeString(signature)
	if err != nil || len(raw) != ed25519.SignatureSize || hex.EncodeToString(raw) != signature {
		return fmt.Errorf("%w: signature is not 128 lower-case hex digits", ErrTampered)
	}
	if !ed25519.Verify(public, append([]byte(domain), signed...), raw) {
		return fmt.Errorf("%w: signature does not match", ErrTampered)
	}
	return nil
}
