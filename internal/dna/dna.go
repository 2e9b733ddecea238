// Package dna promises one short name for what a run was made of (S-16). It has its role, the codes
// of its atoms, digests of its scope and its body, and a nonce that keeps two runs of one task
// apart. Parse and String are inverse to each other. A DNA identifies; it proves nothing and
// authorises nothing: four bytes of a digest can be found again by whoever wants to.
package dna

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/nacre-dev/nacre/internal/atom"
)

const (
	// PrefixLength is how many characters of a DNA the ledger finds runs by.
	PrefixLength = 30
	// maxLength is the longest DNA that is read, in bytes.
	maxLength = 64 << 10
	// unknown is the code of an atom that has none.
	unknown = "??"
	// empty is the code of a role without atoms, so that the part is there.
	empty = "00"
)

// DNA is what a run was made of: <role>::<codes>::<scope8>::<body8>-<nonce8>.
type DNA struct {
	Role string
	// Codes are those of the role's atoms, in its order.
	Codes []string
	// Scope and Body are the first 4 bytes of SHA-256, in upper-case hex.
	Scope, Body string
	// Nonce is 4 random bytes, in lower-case hex.
	Nonce string
}

// Compose names a run of a task in a role with these atoms. nonce is random.
func Compose(t atom.Task, atoms []atom.Atom, nonce [4]byte) DNA {
	codes := make([]string, 0, len(atoms))
	for _, a := range atoms {
		codes = append(codes, CodeOf(a.ID))
	}
	if len(codes) == 0 {
		codes = []string{empty}
	}
	return DNA{Role: t.Role, Codes: codes, Scope: digest(scopeForm(t.Whitelist, t.Denylist)), Body: digest([]byte(t.Body)), Nonce: hex.EncodeToString(nonce[:])}
}

// scopeForm is a scope in one form: the lists sorted, every entry with its
// length in front, so that no two scopes share a form.
func scopeForm(whitelist, denylist []string) []byte {
	var form []byte
	for _, list := range [][]string{whitelist, denylist} {
		sorted := slices.Sorted(slices.Values(list))
		form = binary.BigEndian.AppendUint64(form, uint64(len(sorted)))
		for _, entry := range sorted {
			form = binary.BigEndian.AppendUint64(form, uint64(len(entry)))
			form = append(form, entry...)
		}
	}
	return form
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return strings.ToUpper(hex.EncodeToString(sum[:4]))
}

// String renders the DNA; Parse reads it back.
func (d DNA) String() string {
	return d.Role + "::" + strings.Join(d.Codes, "-") + "::" + d.Scope + "::" + d.Body + "-" + d.Nonce
}

const (
	roleForm  = `([a-z][a-z0-9-]{0,63})`
	codesForm = `((?:[A-Z0-9]{1,4}|\?\?)(?:-(?:[A-Z0-9]{1,4}|\?\?))*)`
)

var (
	strict = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\A` + roleForm + `::` + codesForm + `::([0-9A-F]{8})::([0-9A-F]{8})-([0-9a-f]{8})\z`)
	})
	lenient = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\A` + roleForm + `::` + codesForm + `::([0-9A-Za-z]{4,8})::([0-9A-Za-z]{4,8})-([0-9A-Za-z]{4,8})\z`)
	})
)

// Parse reads a DNA as String renders it.
func Parse(s string) (DNA, error) { return parse(strict(), s) }

// ParseLenient also reads the DNAs of the seed, whose parts have four
// characters and whose nonce is any letters and digits. String gives them back
// as they were.
func ParseLenient(s string) (DNA, error) { return parse(lenient(), s) }

func parse(form *regexp.Regexp, s string) (DNA, error) {
	if len(s) > maxLength {
		return DNA{}, fmt.Errorf("a DNA of %d bytes, over the limit of %d", len(s), maxLength)
	}
	parts := form.FindStringSubmatch(s)
	if parts == nil {
		return DNA{}, fmt.Errorf("%.80q: %w", s, errForm)
	}
	return DNA{Role: parts[1], Codes: strings.Split(parts[2], "-"), Scope: parts[3], Body: parts[4], Nonce: parts[5]}, nil
}

var errForm = errors.New("no DNA: it is <role>::<codes>::<scope8>::<body8>-<nonce8>")

// CodeOf is an atom's code of two characters; "??" where it has none, so that
// an atom of a project is seen and not left out. Codes are never taken away.
func CodeOf(id atom.ID) string {
	switch id {
	case "policy::no-git-ops":
		return "NG"
	case "scope::files-whitelist":
		return "FW"
	case "scope::files-denylist":
		return "FD"
	case "quality::constructor-pattern":
		return "CP"
	case "quality::cargo-check-green":
		return "CG"
	case "quality::tests-green":
		return "TG"
	case "safety::no-dep-bump":
		return "ND"
	case "output::report-format":
		return "RF"
	case "output::severity-grade":
		return "SG"
	case "tools::deny-tools":
		return "DT"
	case "tools::bash-allowlist":
		return "BA"
	}
	return ownCode(id)
}

// ownCode continues the seed's table.
func ownCode(id atom.ID) string {
	switch id {
	case "safety::no-mass-delete":
		return "MD"
	case "output::ledger-row-required":
		return "LR"
	case "quality::no-warnings":
		return "NW"
	case "scope::no-rule-edits":
		return "NR"
	case "quality::go-check-green":
		return "GC"
	case "quality::node-check-green":
		return "JC"
	case "quality::python-check-green":
		return "PC"
	}
	return unknown
}
