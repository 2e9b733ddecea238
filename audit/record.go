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
	"strconv"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit/internal/member"
	"github.com/nacre-dev/nacre/internal/canonical"
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

// Digest is a SHA-256 digest; it prints and marshals as hex.
type Digest [sha256.Size]byte

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText implements encoding.TextMarshaler.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText accepts exactly 64 lower-case hex digits.
func (d *Digest) UnmarshalText(text []byte) error {
	n, err := hex.Decode(d[:], text[:min(len(text), 2*len(d))])
	if err != nil || n != len(d) || len(text) != 2*len(d) || bytes.ContainsAny(text, "ABCDEF") {
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
// chain gives: prev_hash stands at hash, seq at seq.
type body struct {
	text      []byte
	hash, seq int
}

func (b body) size() int { return len(b.text) + 2*sha256.Size + 60 + suffixLen }

// checked refuses a record that cannot be written, but for its detail. It returns its time.
func checked(r nacre.Record) (time.Time, error) {
	if !isKind(string(r.Kind)) {
		return time.Time{}, fmt.Errorf("%w: kind %.70q", ErrRecord, r.Kind)
	}
	if r.Stage < 0 || r.Stage > 99 {
		return time.Time{}, fmt.Errorf("%w: stage %d", ErrRecord, r.Stage)
	}
	t := r.Time.UTC()
	if t.Year() < 1970 || t.Year() > 9999 {
		return time.Time{}, fmt.Errorf("%w: time %v", ErrRecord, r.Time)
	}
	return t, nil
}

// encode checks the record and puts it in canonical form: keys sorted, empty members left out.
func encode(r nacre.Record) (body, error) {
	t, err := checked(r)
	if err != nil {
		return body{}, err
	}
	text := member.Append(make([]byte, 0, 384+len(r.Detail)), "correlation", string(r.Correlation))
	if text, err = appendDetail(text, r.Detail); err != nil {
		return body{}, err
	}
	text = member.Append(text, "group", string(r.Group))
	text = member.Append(text, "kind", string(r.Kind))
	text = member.Append(text, "outcome", r.Outcome)
	text[0] = '{'
	b := body{hash: len(text)}
	text = member.Append(text, "reason", r.Reason)
	b.seq = len(text)
	text = member.Append(text, "session", string(r.Session))
	text = member.Append(text, "source", r.Source)
	if r.Stage > 0 {
		text = strconv.AppendInt(append(text, `,"stage":`...), int64(r.Stage), 10)
	}
	text = append(t.AppendFormat(append(text, `,"time":"`...), timeForm), '"')
	text = member.Append(text, "topic", r.Topic)
	b.text = append(text, `,"v":1`...)
	return b, nil
}

// isKind reports whether a text is a kind's name: [a-z][a-z0-9._-]{0,63}.
func isKind(s string) bool {
	if s == "" || len(s) > 64 || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

func appendDetail(dst []byte, raw json.RawMessage) ([]byte, error) {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || string(raw) == "null" {
		return dst, nil
	}
	if raw[0] != '{' {
		return nil, fmt.Errorf("%w: detail is not a JSON object", ErrRecord)
	}
	dst = append(dst, `,"detail":`...)
	start := len(dst)
	var err error
	if canonical.Is(raw) { // as the kernel's own details are: nothing to put in order
		dst = append(dst, raw...)
	} else if dst, err = canonical.AppendJSON(dst, raw); err != nil {
		return nil, fmt.Errorf("%w: detail: %w", ErrRecord, err)
	}
	if n := len(dst) - start; n > MaxDetail {
		return nil, fmt.Errorf("%w: detail of %d bytes, at most %d", ErrRecord, n, MaxDetail)
	}
	return dst, nil
}

// sealer gives records their place in a chain.
type sealer struct {
	next uint64 // seq of the next record
	prev Digest // hash of the record before it
	mac  hash.Hash
	hash hash.Hash
	out  Digest // room for a sum
}

func newSealer(mac []byte) *sealer {
	return &sealer{mac: hmac.New(sha256.New, mac), hash: sha256.New()}
}

// seal appends the record's line to dst, newline included.
func (s *sealer) seal(dst []byte, b body) []byte {
	start := len(dst)
	dst = appendPlaced(dst, b, s.next, s.prev)
	s.hash.Reset()
	_, _ = io.WriteString(s.hash, recordDomain) // a hash takes everything
	s.hash.Write(dst[start:])
	s.hash.Sum(s.out[:0])
	hash := s.out
	dst = hex.AppendEncode(append(dst, hashMember...), hash[:])
	mac := s.sum(hash)
	dst = hex.AppendEncode(append(dst, macMember...), mac[:])
	s.next, s.prev = s.next+1, hash
	return append(dst, lineEnd+"\n"...)
}

// appendPlaced appends the record's body with its place in a chain.
func appendPlaced(dst []byte, b body, seq uint64, prev Digest) []byte {
	dst = append(append(dst, b.text[:b.hash]...), `,"prev_hash":"`...)
	dst = append(hex.AppendEncode(dst, prev[:]), '"')
	dst = append(append(dst, b.text[b.hash:b.seq]...), `,"seq":`...)
	return append(strconv.AppendUint(dst, seq, 10), b.text[b.seq:]...)
}

func (s *sealer) sum(hash Digest) Digest {
	s.mac.Reset()
	_, _ = io.WriteString(s.mac, macDomain) // a hash takes everything
	s.out = hash
	s.mac.Write(s.out[:])
	s.mac.Sum(s.out[:0])
	return s.out
}

func recordHash(body []byte) Digest { return domainHash(recordDomain, body) }

func domainHash(domain string, data []byte) (sum Digest) {
	h := sha256.New()
	_, _ = io.WriteString(h, domain) // a hash takes everything
	h.Write(data)
	h.Sum(sum[:0])
	return sum
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
	e, err := parseRecord(text)
	if err != nil {
		return Entry{}, err
	}
	e.RecordHash, e.MAC = hash, mac
	if err := e.sameBytes(text); err != nil {
		return Entry{}, err
	}
	if recordHash(text) != hash {
		return Entry{}, fmt.Errorf("record_hash does not match the record")
	}
	return e, nil
}

// parseRecord reads a body, which lacks its closing brace. It refuses unknown
// members; order, form and repetition are sameBytes'.
func parseRecord(text []byte) (e Entry, err error) {
	p := canonical.NewReader(text)
	if len(text) == 0 || text[0] != '{' {
		return e, p.Fail("not an object")
	}
	version := int64(0)
	for !p.Ended() {
		p.Skip() // the brace or a comma, which sameBytes checks
		if p.Peek() != '"' {
			return e, p.Fail("expected a key")
		}
		key, err := p.Text()
		if err != nil {
			return e, err
		}
		if p.Peek() != ':' {
			return e, p.Fail("expected a colon")
		}
		p.Skip()
		if err := e.readMember(p, string(key), &version); err != nil {
			return e, err
		}
	}
	if version != 1 {
		return e, fmt.Errorf("version %d: this verifier knows version 1", version)
	}
	return e, nil
}

func (e *Entry) readMember(p *canonical.Reader, key string, version *int64) error {
	switch key {
	case "detail":
		detail, err := p.Raw()
		e.Detail = bytes.Clone(detail)
		return err
	case "seq", "stage", "v":
		return e.readInteger(p, key, version)
	}
	if p.Peek() != '"' {
		return p.Fail("expected a text")
	}
	raw, err := p.Text()
	if err != nil {
		return err
	}
	text := string(raw)
	switch key {
	case "correlation":
		e.Correlation = nacre.Correlation(text)
	case "group":
		e.Group = nacre.Group(text)
	case "kind":
		e.Kind = nacre.Kind(text)
	case "outcome":
		e.Outcome = text
	case "prev_hash":
		return e.PrevHash.UnmarshalText(raw)
	case "reason":
		e.Reason = text
	case "session":
		e.Session = nacre.SessionID(text)
	case "source":
		e.Source = text
	case "time":
		if e.Time, err = time.Parse(timeForm, text); err != nil {
			return fmt.Errorf("time is not in the form %s", timeForm)
		}
	case "topic":
		e.Topic = text
	default:
		return p.Fail(fmt.Sprintf("unknown key %.40q", key))
	}
	return nil
}

func (e *Entry) readInteger(p *canonical.Reader, key string, version *int64) error {
	_, n, err := p.Integer()
	switch {
	case err != nil:
		return err
	case n < 0:
		return p.Fail("a number below nought")
	case key == "seq":
		e.Seq = uint64(n)
	case key == "stage":
		e.Stage = int(n)
	default:
		*version = n
	}
	return nil
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
	if have := appendPlaced(make([]byte, 0, b.size()), b, e.Seq, e.PrevHash); !bytes.Equal(have, text) {
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
