package kernel

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/wire"
	"github.com/nacre-dev/nacre/policy"
)

const (
	// maxWords is how much of a text a detail keeps, in bytes.
	maxWords = 2000
	// maxListed is how many elements of a list, and maxListedBytes about how much
	// of it: the last one then says that there were more. A chain refuses records
	// that are too large, and what is listed comes from arguments and results.
	maxListed      = 64
	maxListedBytes = 4 << 10
)

// detail is what a record tells beyond the fields that all records have, as a
// JSON object. Its members are written in the order of their names, so that a
// chain finds it canonical already; what is empty is left out. Arguments,
// results and the agent's words are in it by size and digest only.
type detail []byte

func newDetail() detail { return append(make(detail, 0, 1024), '{') }

func (d *detail) key(name string) {
	b := *d
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	*d = append(append(append(b, '"'), name...), '"', ':')
}

func (d *detail) text(name, value string) {
	if value == "" {
		return
	}
	d.key(name)
	d.word(value)
}

func (d *detail) word(value string) {
	if len(value) <= maxWords && isPlain(value) { // as nearly all are
		*d = append(append(append(*d, '"'), value...), '"')
		return
	}
	*d = wire.AppendText(*d, cut(value, maxWords))
}

// isPlain reports whether a text stands for itself in JSON, in ASCII.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func (d *detail) number(name string, n int64) {
	if n != 0 {
		d.key(name)
		*d = strconv.AppendInt(*d, n, 10)
	}
}

func (d *detail) flag(name string, set bool) {
	if set {
		d.key(name)
		*d = append(*d, "true"...)
	}
}

func (d *detail) list(name string, values []string) {
	if len(values) == 0 {
		return
	}
	d.key(name)
	*d = append(*d, '[')
	start := len(*d)
	for i, value := range values {
		if i > 0 {
			*d = append(*d, ',')
		}
		if i == maxListed || len(*d)-start > maxListedBytes {
			d.word("…")
			break
		}
		d.word(value)
	}
	*d = append(*d, ']')
}

// measure is what may be known of a value that is not kept. It returns what it
// has written of it.
func measure[V ~string | ~[]byte](d *detail, name string, value V) []byte {
	d.key(name)
	start := len(*d)
	*d = strconv.AppendInt(append(*d, `{"bytes":`...), int64(len(value)), 10)
	if len(value) > 0 {
		sum := sha256.Sum256([]byte(value))
		*d = append(hex.AppendEncode(append(*d, `,"sha256":"`...), sum[:]), '"')
	}
	*d = append(*d, '}')
	return (*d)[start:]
}

// measured is measure of a value that was measured before.
func (d *detail) measured(name string, written []byte) {
	d.key(name)
	*d = append(*d, written...)
}

func (d *detail) attempts(name string, all []Attempt) {
	if len(all) == 0 {
		return
	}
	d.key(name)
	*d = append(*d, '[')
	for i, a := range all {
		d.element(i)
		d.text("cause", a.Cause)
		d.text("driver_id", a.Driver)
		*d = append(*d, '}')
	}
	*d = append(*d, ']')
}

func (d *detail) origins(name string, all []nacre.Origin) {
	if len(all) == 0 {
		return
	}
	d.key(name)
	*d = append(*d, '[')
	start := len(*d)
	for i, o := range all {
		d.element(i)
		if i == maxListed || len(*d)-start > maxListedBytes {
			d.text("argument", "…")
			*d = append(*d, '}')
			break
		}
		d.text("argument", o.Argument)
		d.text("provenance", o.Provenance.String())
		d.list("sources", o.Sources)
		*d = append(*d, '}')
	}
	*d = append(*d, ']')
}

// element begins an object in a list.
func (d *detail) element(i int) {
	if i > 0 {
		*d = append(*d, ',')
	}
	*d = append(*d, '{')
}

func (d *detail) done() []byte { return append(*d, '}') }

// members writes a map of texts.
func members[V ~string](d *detail, name string, all map[string]V) {
	membersOf(d, name, all, func(v V) string { return string(v) })
}

func membersOf[V any](d *detail, name string, all map[string]V, text func(V) string) {
	if len(all) == 0 {
		return
	}
	d.key(name)
	*d = append(*d, '{')
	var few [16]string
	names := few[:0]
	for key := range all {
		names = append(names, key)
	}
	slices.Sort(names)
	for i, key := range names {
		if i > 0 {
			*d = append(*d, ',')
		}
		d.word(key)
		*d = append(*d, ':')
		d.word(text(all[key]))
	}
	*d = append(*d, '}')
}

// request is what is kept of a request, so that another policy can be held
// against it later (K-06): the JSON of a [policy.Recorded].
func (d *detail) request(name string, r policy.Recorded) {
	d.key(name)
	*d = append(*d, '{')
	d.list("allowed_fields", r.AllowedFields)
	members(d, "arguments", r.Arguments)
	members(d, "attributes", r.Attributes)
	d.flag("behavioural", r.Behavioural)
	d.text("capability", string(r.Capability))
	d.text("channel", r.Channel)
	d.text("group", string(r.Group))
	d.flag("high_risk", r.HighRisk)
	d.text("intent", r.Intent)
	d.key("justification")
	*d = strconv.AppendInt(*d, int64(r.Justification), 10)
	d.flag("partial", r.Partial)
	d.text("principal", r.Principal)
	membersOf(d, "provenance", r.Provenance, nacre.Provenance.String)
	d.flag("read_untrusted", r.ReadUntrusted)
	d.list("roles", r.Roles)
	d.text("safety_class", r.Safety.String())
	members(d, "scope", r.Scope)
	d.text("sensitivity", r.Sensitivity.String())
	d.flag("tainted", r.Tainted)
	d.text("tool", string(r.Tool))
	*d = append(*d, '}')
}
