package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/constraint"
	"github.com/nacre-dev/nacre/internal/quantity"
)

// The limits of what is recorded of a request.
const (
	maxRecorded      = 64
	maxRecordedDepth = 4
	maxRecordedText  = 200
	// maxShortInteger is the most digits of a number that is canonical at sight.
	maxShortInteger = 15
)

// Recorded is what an audit record keeps of a request, so that another policy can be held against
// it later (K-06). It keeps everything but values of arguments and attributes, which are there by
// digest. It is the member "request" of the detail of call.begin, call.reject and call.dry_run.
type Recorded struct {
	RecordedCapability
	Principal     string            `json:"principal,omitempty"`
	Group         nacre.Group       `json:"group,omitempty"`
	Roles         []string          `json:"roles,omitempty"`
	Attributes    map[string]Digest `json:"attributes,omitempty"`
	Intent        string            `json:"intent,omitempty"`
	Scope         map[string]string `json:"scope,omitempty"`
	Channel       string            `json:"channel,omitempty"`
	Tainted       bool              `json:"tainted,omitempty"`
	ReadUntrusted bool              `json:"read_untrusted,omitempty"`
	// Provenance is that of each sink value, by its path.
	Provenance map[string]nacre.Provenance `json:"provenance,omitempty"`
	// Justification is the length of the operator's words, in code points.
	Justification int `json:"justification"`
	// Arguments are digests of the scalars, by dotted path; of a list or an
	// object there is only that it was there.
	Arguments map[string]Digest `json:"arguments,omitempty"`
	// Partial says that there was more than is kept.
	Partial bool `json:"partial,omitempty"`
	// AllowedFields are the capability's, which the default rules look at.
	AllowedFields []string `json:"allowed_fields,omitempty"`
}

// RecordedCapability is what a record keeps of the capability that a request is for.
type RecordedCapability struct {
	Tool        nacre.ToolName     `json:"tool"`
	Capability  nacre.CapabilityID `json:"capability"`
	Safety      nacre.SafetyClass  `json:"safety_class"`
	Sensitivity nacre.Sensitivity  `json:"sensitivity"`
	HighRisk    bool               `json:"high_risk,omitempty"`
	Behavioural bool               `json:"behavioural,omitempty"`
}

// Digest is what is kept of a value: 16 bytes of SHA-256 in hex, or "list", "object" or "twice". A
// ~ stands before the bytes where the value can be read in several ways.
type Digest string

const (
	digestList   Digest = "list"
	digestObject Digest = "object"
	digestTwice  Digest = "twice" // nobody knows which of two values was meant
)

// RecordedOf is what may be kept of a request.
func RecordedOf(r Request) Recorded {
	s := subject{request: &r}
	c, p := &r.Capability, &r.Principal
	rec := Recorded{
		RecordedCapability: RecordedCapability{
			Tool: c.Tool, Capability: c.ID, Safety: c.Safety, Sensitivity: c.Sensitivity, HighRisk: c.HighRisk, Behavioural: c.Behavioural,
		},
		Principal: p.ID, Group: p.Group, Intent: p.Intent, Channel: p.Channel,
		Tainted: r.Tainted, ReadUntrusted: r.untrusted(), Justification: justificationOf(*p),
	}
	rec.Roles, rec.AllowedFields = rec.some(p.Roles), rec.some(c.AllowedFields)
	for _, name := range rec.names(p.Attributes) {
		put(&rec.Attributes, name, attributeDigest(p.Attributes[name]))
	}
	for _, name := range rec.names(p.Scope) {
		put(&rec.Scope, name, p.Scope[name])
	}
	for i := range r.Origins {
		rec.origin(r.Origins[i].Argument, known(r.Origins[i].Provenance))
	}
	for _, sink := range c.Sinks {
		if s.forgotten(sink) {
			rec.origin(sink, nacre.SeenNowhere)
		}
	}
	switch {
	case len(r.Arguments) == 0:
	case s.readable():
		rec.argument("", s.raw, 0)
	default:
		rec.Partial = true
	}
	return rec
}

func put[V any](m *map[string]V, name string, value V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[name] = value
}

func (rec *Recorded) some(list []string) []string {
	if len(list) > maxRecorded {
		rec.Partial, list = true, list[:maxRecorded]
	}
	return slices.Clone(list)
}

// names of a map in order, as many as are kept. A long one is left out.
func (rec *Recorded) names(values map[string]string) []string {
	names := make([]string, 0, len(values))
	for name, value := range values {
		if len(name)+len(value) > maxRecordedText {
			rec.Partial = true
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return rec.some(names)
}

func (rec *Recorded) origin(path string, p nacre.Provenance) {
	if before, ok := rec.Provenance[path]; ok {
		p = min(p, before)
	} else if len(rec.Provenance) >= maxRecorded || len(path) > maxRecordedText {
		// What is not kept by its name still counts as what it is.
		rec.Partial, path = true, ""
		if before, ok := rec.Provenance[path]; ok {
			p = min(p, before)
		}
	}
	put(&rec.Provenance, path, p)
}

// argument keeps a value and what is in it.
func (rec *Recorded) argument(path, raw string, depth int) {
	if len(rec.Arguments) >= maxRecorded || depth > maxRecordedDepth || len(path) > maxRecordedText || raw == "" {
		rec.Partial = true
		return
	}
	kind := digestObject
	switch raw[0] {
	case '[':
		kind = digestList
	case '{':
	default:
		kind = scalarDigest(raw)
	}
	if path != "" {
		put(&rec.Arguments, path, kind)
		if kind != digestObject && kind != digestList {
			return
		}
		path += "."
	}
	m := membersOf(raw)
	for n := 0; ; n++ {
		name, value, after, ok := m.next()
		if !ok {
			return
		}
		m = after
		key := strconv.Itoa(n)
		if m.object {
			key, _ = unquote(name) // it is valid JSON, so its names are
		}
		if _, twice := rec.Arguments[path+key]; twice {
			rec.Arguments[path+key] = digestTwice
			continue
		}
		if strings.Contains(key, ".") || len(rec.Arguments) >= maxRecorded {
			rec.Partial = true
			return
		}
		rec.argument(path+key, value, depth+1)
	}
}

// Request is the request as far as it was recorded: without arguments, and
// without the values of attributes. What looks at those is Policy.Replay's.
func (rec Recorded) Request() Request {
	r := Request{
		Principal: nacre.Principal{
			ID: rec.Principal, Group: rec.Group, Roles: rec.Roles, Intent: rec.Intent, Scope: rec.Scope, Channel: rec.Channel,
			Justification: strings.Repeat("x", min(max(rec.Justification, 0), maxText)),
		},
		Capability: nacre.Capability{
			ID: rec.Capability, Tool: rec.Tool, Safety: rec.Safety, Sensitivity: rec.Sensitivity, Handling: nacre.Handling{HighRisk: rec.HighRisk,
				Behavioural: rec.Behavioural}, AllowedFields: rec.AllowedFields,
		},
		Tainted: rec.Tainted, ReadUntrusted: rec.ReadUntrusted,
	}
	for path, p := range rec.Provenance {
		r.Origins = append(r.Origins, nacre.Origin{Argument: path, Provenance: p})
	}
	slices.SortFunc(r.Origins, func(a, b nacre.Origin) int { return strings.Compare(a.Argument, b.Argument) })
	return r
}

// Replay is what the policy would have decided on a recorded request. Where
// that hangs on values that are not recorded, undecided names the condition,
// and the decision is the zero one, which denies (K-06).
func (p *Policy) Replay(rec Recorded) (d nacre.Decision, undecided string) {
	r := rec.Request()
	s := subject{request: &r, recorded: &rec}
	hangs := make(map[nacre.Verdict]bool)
	for i := range p.rules {
		rule := &p.rules[i]
		switch rule.matches(&s) {
		case no:
			continue
		case unknown:
			hangs[rule.verdict] = true
			if undecided == "" {
				undecided = rule.place + ": " + rule.unknown(&s)
			}
			continue
		case yes:
		}
		return settled(rule.decision(r.Capability.ID, r.Constraints), hangs, undecided)
	}
	return settled(p.defaulted(&s), hangs, undecided)
}

// settled keeps a decision that what is unknown could not change.
func settled(d nacre.Decision, hangs map[nacre.Verdict]bool, undecided string) (nacre.Decision, string) {
	for verdict := range hangs {
		if verdict != d.Verdict {
			return nacre.Decision{}, undecided
		}
	}
	return d, ""
}

// unknown names the first condition of which nothing is known.
func (r *rule) unknown(s *subject) string {
	for i := range r.match {
		if r.match[i].holds(s, r.verdict == nacre.Allow) == unknown {
			return r.match[i].label()
		}
	}
	return ""
}

// recordedArgument holds what was recorded of an argument against a condition.
func (c *condition) recordedArgument(rec *Recorded) truth {
	digest, there := rec.Arguments[c.name]
	switch {
	case rec.ambiguous(c.name), !there && (rec.Partial || rec.cut(c.name)):
		return unknown
	case !there:
		return no
	}
	return c.recorded(digest, func(value string) Digest {
		raw, err := json.Marshal(value)
		if err != nil {
			return ""
		}
		return scalarDigest(string(raw))
	})
}

// ambiguous reports whether the place, or one above it, was there twice.
func (rec *Recorded) ambiguous(path string) bool {
	for i := 0; i <= len(path); i++ {
		if (i == len(path) || path[i] == '.') && rec.Arguments[path[:i]] == digestTwice {
			return true
		}
	}
	return false
}

// cut reports whether a place above path was a list or an object whose parts
// are not kept.
func (rec *Recorded) cut(path string) bool {
	return strings.Count(path, ".") >= maxRecordedDepth
}

// recorded holds a digest against the patterns and scalars that have only one
// value; of the others nothing is known.
func (c *condition) recorded(digest Digest, of func(string) Digest) truth {
	result := no
	for i := range c.patterns {
		p := &c.patterns[i]
		exact, ok := p.exact()
		switch {
		case p.any:
			return yes
		case !ok || digest == digestList || digest == digestObject:
			result = either(result, unknown)
		default:
			result = either(result, digest.equals(of(exact)))
		}
	}
	if len(c.bounds) > 0 {
		result = either(result, unknown)
	}
	for _, scalar := range c.scalars {
		if digest == digestList || digest == digestObject {
			result = either(result, unknown)
			continue
		}
		result = either(result, digest.equals(scalarDigest(scalar)))
	}
	return result
}

func either(a, b truth) truth {
	if a == yes || b == yes {
		return yes
	}
	return max(a, b)
}

// equals is unknown of a value that can be read in several ways.
func (d Digest) equals(want Digest) truth {
	several := strings.HasPrefix(string(d), "~")
	switch {
	case strings.TrimPrefix(string(d), "~") == strings.TrimPrefix(string(want), "~") && !several:
		return yes
	case several:
		return unknown
	}
	return no
}

func attributeDigest(value string) Digest { return sum("attribute", value, value) }

// scalarDigest is that of a JSON scalar, the same however it is written.
func scalarDigest(raw string) Digest {
	if text, ok := unquote(raw); ok {
		if _, ok := quantity.ParseNumber(strings.TrimSpace(text)); ok { // some read it as that
			return ambiguous(sum("text", text, text))
		}
		return sum("text", text, text)
	}
	if n, ok := quantity.ParseNumber(raw); ok && !n.Exact() { // a double reads it as another
		return ambiguous(sum("scalar", canonicalNumber(raw), ""))
	}
	return sum("scalar", canonicalNumber(raw), "")
}

// ambiguous marks a digest of what can be read in several ways.
func ambiguous(d Digest) Digest { return "~" + Digest(strings.TrimPrefix(string(d), "~")) }

// canonicalNumber is a number as it is written in one way only, and any other
// scalar as it is.
func canonicalNumber(raw string) string {
	if raw != "" && isNumber(raw) && !isShortInteger(raw) {
		if form, err := constraint.Canonical([]byte(raw)); err == nil {
			return string(form)
		}
	}
	return raw
}

// isShortInteger reports whether a number is its own canonical form.
func isShortInteger(raw string) bool {
	if raw == "0" {
		return true
	}
	digits := strings.TrimPrefix(raw, "-")
	if digits == "" || len(digits) > maxShortInteger || digits[0] == '0' {
		return false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return false
		}
	}
	return true
}

func sum(kind, value, text string) Digest {
	var room [256]byte
	b := append(append(append(append(room[:0], "nacre.recorded.1\x00"...), kind...), 0), value...)
	h := sha256.Sum256(b)
	d := hex.AppendEncode(append(room[:0], '~'), h[:16])
	if len(text) > maxMatched || several(text) {
		return Digest(d)
	}
	return Digest(d[1:])
}
