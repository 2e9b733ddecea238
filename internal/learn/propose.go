// Package learn makes a policy from evidence (U-40): from what sealed sessions asked for and
// were refused, one narrow proposal that a person approves as a whole, in parts or not at
// all. Nothing is opened to learn: what was refused stays refused until a person approved it.
package learn

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/urlpath"
)

const (
	// maxLines are the lines of one proposal, and maxPaths the paths of one line.
	maxLines = 100
	maxPaths = 64
	// maxEvidence is how many records a line names; Times counts all.
	maxEvidence = 5
	// cutPath is the length at which records cut a path, in bytes.
	cutPath = 512
)

// Why a line is approved by its number alone.
const (
	apartUntrusted = "asked only after the session had read text that nobody vouches for"
	apartSends     = "sends or changes something"
	apartWider     = "this is more than was seen"
)

// Refusal is a request of a session that nacre refused, as its record tells it.
type Refusal struct {
	Session nacre.SessionID
	Chain   string
	Seq     uint64
	// Digest is the record's own.
	Digest string
	Host   string
	Port   uint16
	Method string
	Path   string
	// Rule is what lets its host through, where only the request was refused.
	Rule   string
	Reason egress.Reason
	// Untrusted says that the session had read text by then that nobody vouches for.
	Untrusted bool
}

// Line is one thing that a person may approve.
type Line struct {
	Number int `json:"number"`
	// Host is written as in [egress] allow. Without methods and paths it is reached by its
	// name alone, and what is asked of it inside of TLS is not seen.
	Host    string   `json:"host"`
	Methods []string `json:"methods,omitempty"`
	Paths   []string `json:"paths,omitempty"`
	// Apart is why a person approves the line by its number, and not with all.
	Apart []string `json:"apart,omitempty"`
	// Wider names the one path below which all that was seen lies. A person may accept it
	// in place of Paths; it allows more than was seen.
	Wider string `json:"wider,omitempty"`
	// Evidence are records as CHAIN#NUMBER, and Times is how many there are.
	Evidence []string `json:"evidence"`
	Times    int      `json:"times"`
	// Others is how many refusals of other sessions the line would have let through.
	Others int `json:"others"`
}

// Left is what stays refused whatever a person approves.
type Left struct {
	What  string `json:"what"`
	Why   string `json:"why"`
	Times int    `json:"times"`
}

// Proposal is what sessions were refused, in the form in which a person approves it.
type Proposal struct {
	// ID names exactly these lines made of exactly this evidence.
	ID       string            `json:"id"`
	Sessions []nacre.SessionID `json:"sessions"`
	Lines    []Line            `json:"lines"`
	Left     []Left            `json:"left"`
	// Looked is in how many other sessions the lines were tried.
	Looked int `json:"looked"`
	// Evidence is the SHA-256 of the records, in hexadecimal.
	Evidence string `json:"evidence"`
}

// key is what refusals of one line have in common.
type key struct{ host, method string }

// Propose makes lines of refusals, and says of the others why they stay refused. The same
// refusals give the same proposal in whatever order they come.
func Propose(refusals []Refusal) Proposal {
	refusals = slices.SortedFunc(slices.Values(refusals), func(a, b Refusal) int {
		return cmp.Or(strings.Compare(a.Chain, b.Chain), cmp.Compare(a.Seq, b.Seq))
	})
	p := Proposal{Sessions: []nacre.SessionID{}, Lines: []Line{}, Left: []Left{}}
	digest, left, lines := sha256.New(), map[Left]int{}, map[key][]Refusal{}
	for _, r := range refusals {
		_, _ = fmt.Fprintf(digest, "%s %d %s\n", r.Chain, r.Seq, r.Digest) // a hash takes everything
		if !slices.Contains(p.Sessions, r.Session) {
			p.Sessions = append(p.Sessions, r.Session)
		}
		rule, why := r.wants()
		if why != "" {
			left[Left{What: r.where(), Why: why}]++
			continue
		}
		k := key{host: rule}
		if r.seesRequest() {
			k.method = r.Method
		}
		lines[k] = append(lines[k], r)
	}
	for _, k := range slices.SortedFunc(maps.Keys(lines), func(a, b key) int {
		return cmp.Or(strings.Compare(a.host, b.host), strings.Compare(a.method, b.method))
	}) {
		line, why := lineOf(k, lines[k])
		if why == "" && len(p.Lines) == maxLines {
			why = fmt.Sprintf("a proposal has at most %d lines: approve these first", maxLines)
		}
		if why != "" {
			left[Left{What: k.host, Why: why}] += len(lines[k])
			continue
		}
		line.Number = len(p.Lines) + 1
		p.Lines = append(p.Lines, line)
	}
	for l, times := range left {
		l.Times = times
		p.Left = append(p.Left, l)
	}
	slices.SortFunc(p.Left, func(a, b Left) int {
		return cmp.Or(strings.Compare(a.What, b.What), strings.Compare(a.Why, b.Why))
	})
	p.Evidence = hex.EncodeToString(digest.Sum(nil))
	p.ID = p.digest()
	return p
}

// digest names the lines and their evidence.
func (p Proposal) digest() string {
	text, err := json.Marshal(struct {
		Lines    []Line
		Evidence string
	}{p.Lines, p.Evidence})
	if err != nil {
		panic(err) // texts and numbers always marshal
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// seesRequest tells a request whose method and path nacre saw from a name in a CONNECT.
func (r Refusal) seesRequest() bool { return r.Method != "CONNECT" }

// where is the host and port, as far as they could be read.
func (r Refusal) where() string {
	if r.Host == "" {
		return "a request without a readable host"
	}
	return fmt.Sprintf("%s:%d", r.Host, r.Port)
}

// wants is the rule that would let the request through, as in [egress] allow, or why there
// will be none.
func (r Refusal) wants() (rule, why string) {
	rule = r.where()
	switch {
	case r.Reason == egress.ReasonNotInBundle:
		rule = cmp.Or(r.Rule, rule)
	case r.Reason != egress.ReasonNotListed:
		return "", "refused as " + string(r.Reason) + ", which no list of hosts changes"
	case r.seesRequest():
		rule += "/http"
	}
	parsed, err := posture.ParseEgress(rule)
	switch {
	case err != nil:
		return "", "it is not a host by its name"
	case posture.Inside(parsed.Host):
		return "", "it leads inside: name it with --reach or pin it yourself"
	case !r.seesRequest():
		return parsed.String(), ""
	case r.Path == "" || len(r.Path) >= cutPath || strings.Contains(r.Path, "%") || urlpath.Check(r.Path) != nil:
		return "", "its path cannot be written down as one place"
	}
	return parsed.String(), ""
}

// lineOf makes one line of refusals that have their host and method in common.
func lineOf(k key, refusals []Refusal) (line Line, why string) {
	line = Line{Host: k.host, Times: len(refusals)}
	untrusted := true
	for _, r := range refusals {
		untrusted = untrusted && r.Untrusted
		if len(line.Evidence) < maxEvidence {
			line.Evidence = append(line.Evidence, fmt.Sprintf("%s#%d", r.Chain, r.Seq))
		}
		if r.seesRequest() && !slices.Contains(line.Paths, r.Path) {
			line.Paths = append(line.Paths, r.Path)
		}
	}
	if untrusted {
		line.Apart = append(line.Apart, apartUntrusted)
	}
	if k.method == "" {
		return line, ""
	}
	line.Methods = []string{k.method}
	if !slices.Contains([]string{"GET", "HEAD", "OPTIONS"}, k.method) {
		line.Apart = append(line.Apart, apartSends)
	}
	slices.Sort(line.Paths)
	line.Wider = folderOf(line.Paths)
	if len(line.Paths) > maxPaths {
		if line.Wider == "" {
			return Line{}, fmt.Sprintf("%d paths have no folder in common: name the host with --egress", len(line.Paths))
		}
		line.Paths, line.Wider = []string{line.Wider}, ""
		line.Apart = append(line.Apart, apartWider)
	}
	return line, ""
}

// folderOf is the folder that several paths have in common, with a slash at its end; ""
// where that is the whole host.
func folderOf(paths []string) string {
	if len(paths) < 2 {
		return ""
	}
	common := paths[0]
	for _, path := range paths[1:] {
		for !strings.HasPrefix(path, common) {
			common = common[:len(common)-1]
		}
	}
	common = common[:strings.LastIndexByte(common, '/')+1]
	if common == "/" {
		return ""
	}
	return common
}

// lets tells whether the line would have let a refused request through.
func (l Line) lets(r Refusal) bool {
	rule, why := r.wants()
	if why != "" || rule != l.Host {
		return false
	}
	if len(l.Methods) == 0 {
		return !r.seesRequest()
	}
	return slices.Contains(l.Methods, r.Method) &&
		slices.ContainsFunc(l.Paths, func(prefix string) bool { return urlpath.Below(r.Path, prefix) })
}

// Try counts what the lines would have let through of other sessions' refusals.
func (p *Proposal) Try(others []Refusal, sessions int) {
	p.Looked = sessions
	for i := range p.Lines {
		for _, r := range others {
			if p.Lines[i].lets(r) {
				p.Lines[i].Others++
			}
		}
	}
}
