// Package learn makes a policy from evidence (U-40). From what sealed sessions asked for and were
// refused it makes one narrow proposal, which a person approves as a whole, in parts or not at all.
// Nothing is opened to learn: what was refused stays refused until a person approved it.
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
	apartLease     = "uses a credential for more"
)

// anyArguments is the wider form of a line of a tool.
const anyArguments = "any arguments"

// Seen is a record of a session, and what the session was by then.
type Seen struct {
	Session nacre.SessionID
	Group   nacre.Group
	Chain   string
	Seq     uint64
	// Digest is the record's own.
	Digest string
	// Untrusted says that the session had read text by then that nobody vouches for.
	Untrusted bool
}

// Refusal is a request of a session that nacre refused, as its record tells it.
type Refusal struct {
	Seen
	Host   string
	Port   uint16
	Method string
	Path   string
	// Rule is what lets its host through, where only the request was refused.
	Rule   string
	Reason egress.Reason
}

// Refused is what sessions asked for and were refused.
type Refused struct {
	Hosts   []Refusal
	Calls   []Call
	Folders []Folder
}

// Facts are what an installation says of what its sessions asked for.
type Facts struct {
	// Tools are those of its plugins.
	Tools map[nacre.ToolName]ToolFacts
	// Credentials are those that the proxy adds to requests.
	Credentials []CredentialFacts
}

// CredentialFacts are whose sessions hold a credential, and where it goes, as in [egress] allow.
type CredentialFacts struct {
	Name   string
	Groups []string
	Host   string
}

// Line is one thing that a person may approve.
type Line struct {
	Number int `json:"number"`
	// Host is written as in [egress] allow. Without methods and paths it is reached by its
	// name alone, and what is asked of it inside of TLS is not seen. Empty for a tool and a folder.
	Host    string   `json:"host,omitempty"`
	Methods []string `json:"methods,omitempty"`
	Paths   []string `json:"paths,omitempty"`
	// Group is whose sessions may use Credential for that, or call Tool with Arguments, which
	// are SHA-256 in hexadecimal; none where any are approved.
	Group      nacre.Group    `json:"group,omitempty"`
	Credential string         `json:"credential,omitempty"`
	Tool       nacre.ToolName `json:"tool,omitempty"`
	Arguments  []string       `json:"arguments,omitempty"`
	// Folder is the path of a folder of the host that the group's agents are shown when they ask.
	Folder string `json:"folder,omitempty"`
	// Apart is why a person approves the line by its number, and not with all.
	Apart []string `json:"apart,omitempty"`
	// Wider names the one path below which all that was seen lies, or says that a tool may
	// be called with any arguments. A person may accept it in place of Paths and Arguments;
	// it allows more than was seen.
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
type key struct {
	host, method, credential, folder string
	group                            nacre.Group
	tool                             nacre.ToolName
}

// compare orders lines: hosts, then credentials, then tools, then folders.
func (k key) compare(b key) int {
	return cmp.Or(strings.Compare(k.folder, b.folder), strings.Compare(string(k.tool), string(b.tool)), strings.Compare(k.credential, b.credential),
		strings.Compare(string(k.group), string(b.group)), strings.Compare(k.host, b.host), strings.Compare(k.method, b.method))
}

// draft is a proposal that is being made.
type draft struct {
	Proposal
	facts   Facts
	hosts   map[key][]Refusal
	calls   map[key][]Call
	folders map[key][]Folder
	left    map[Left]int
}

// Propose makes lines of refusals, and says of the others why they stay refused. The same
// refusals give the same proposal in whatever order they come.
func Propose(all Refused, facts Facts) Proposal {
	d := draft{
		Proposal: Proposal{Sessions: []nacre.SessionID{}, Lines: []Line{}, Left: []Left{}}, facts: facts,
		hosts: map[key][]Refusal{}, calls: map[key][]Call{}, folders: map[key][]Folder{}, left: map[Left]int{},
	}
	d.gather(all)
	for _, k := range slices.SortedFunc(maps.Keys(d.hosts), key.compare) {
		for _, refusals := range parted(d.hosts[k], func(r Refusal) (string, bool) { return r.Path, r.Untrusted }) {
			line, why := lineOf(k, refusals)
			d.add(line, why, k.host, len(refusals))
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(d.calls), key.compare) {
		for _, calls := range parted(d.calls[k], func(c Call) (string, bool) { return c.Arguments, c.Untrusted }) {
			d.add(lineOfTool(k, calls, facts.Tools[k.tool]), "", toolText(k.tool, k.group), len(calls))
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(d.folders), key.compare) {
		d.add(lineOfFolder(k, d.folders[k]), "", folderText(k.folder, k.group), len(d.folders[k]))
	}
	for l, times := range d.left {
		l.Times = times
		d.Left = append(d.Left, l)
	}
	slices.SortFunc(d.Left, func(a, b Left) int {
		return cmp.Or(strings.Compare(a.What, b.What), strings.Compare(a.Why, b.Why))
	})
	d.ID = d.digest()
	return d.Proposal
}

// parted keeps what was asked only after text that nobody vouches for out of the line of all else: it would be
// approved with that.
func parted[T any](all []T, asked func(T) (what string, untrusted bool)) (parts [][]T) {
	before := map[string]bool{}
	for _, one := range all {
		if what, untrusted := asked(one); !untrusted {
			before[what] = true
		}
	}
	var first, after []T
	for _, one := range all {
		if what, _ := asked(one); before[what] {
			first = append(first, one)
		} else {
			after = append(after, one)
		}
	}
	return slices.DeleteFunc([][]T{first, after}, func(part []T) bool { return len(part) == 0 })
}

// before orders records.
func (s Seen) before(b Seen) int {
	return cmp.Or(strings.Compare(s.Chain, b.Chain), cmp.Compare(s.Seq, b.Seq))
}

// gather puts together what becomes one line, and what becomes none.
func (d *draft) gather(all Refused) {
	refusals := slices.SortedFunc(slices.Values(all.Hosts), func(a, b Refusal) int { return a.before(b.Seen) })
	calls := slices.SortedFunc(slices.Values(all.Calls), func(a, b Call) int { return a.before(b.Seen) })
	folders := slices.SortedFunc(slices.Values(all.Folders), func(a, b Folder) int { return a.before(b.Seen) })
	seen := make([]Seen, 0, len(refusals)+len(calls)+len(folders))
	for _, r := range refusals {
		seen = append(seen, r.Seen)
		k, why := r.key(d.facts)
		if why != "" {
			d.left[Left{What: r.where(), Why: why}]++
			continue
		}
		d.hosts[k] = append(d.hosts[k], r)
	}
	for _, c := range calls {
		seen = append(seen, c.Seen)
		if why := c.stays(d.facts); why != "" {
			d.left[Left{What: toolText(c.Tool, c.Group), Why: why}]++
			continue
		}
		k := key{tool: c.Tool, group: c.Group}
		d.calls[k] = append(d.calls[k], c)
	}
	for _, f := range folders {
		seen = append(seen, f.Seen)
		if f.Why != "" {
			d.left[Left{What: folderText(f.Folder, f.Group), Why: f.Why}]++
			continue
		}
		k := key{folder: f.Folder, group: f.Group}
		d.folders[k] = append(d.folders[k], f)
	}
	digest := sha256.New()
	for _, s := range slices.SortedFunc(slices.Values(seen), Seen.before) {
		_, _ = fmt.Fprintf(digest, "%s %d %s\n", s.Chain, s.Seq, s.Digest) // a hash takes everything
		if !slices.Contains(d.Sessions, s.Session) {
			d.Sessions = append(d.Sessions, s.Session)
		}
	}
	d.Evidence = hex.EncodeToString(digest.Sum(nil))
}

// add puts a line into the proposal, or what it is of where it may not be one.
func (d *draft) add(line Line, why, what string, times int) {
	if why == "" && len(d.Lines) == maxLines {
		why = fmt.Sprintf("a proposal has at most %d lines: approve these first", maxLines)
	}
	if why != "" {
		d.left[Left{What: what, Why: why}] += times
		return
	}
	line.Number = len(d.Lines) + 1
	d.Lines = append(d.Lines, line)
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
		return "a request to an address, or to no host that can be read"
	}
	return fmt.Sprintf("%s:%d", r.Host, r.Port)
}

// leased tells a request of a host for which a credential is, that is for other requests.
func (r Refusal) leased() bool {
	return r.Reason == egress.ReasonPathNotLeased || r.Reason == egress.ReasonMethodNotLeased
}

// key is the line that the request belongs to, or why there will be none.
func (r Refusal) key(facts Facts) (k key, why string) {
	k.host, why = r.wants()
	if r.seesRequest() {
		k.method = r.Method
	}
	if why != "" || !r.leased() {
		return k, why
	}
	k.group = r.Group
	for _, c := range facts.Credentials {
		switch {
		case c.Host != k.host || !slices.Contains(c.Groups, string(r.Group)):
		case k.credential != "":
			return k, "several credentials are for this host: write the path under the right one in config.toml"
		default:
			k.credential = c.Name
		}
	}
	if k.credential == "" {
		why = "no credential of the group is for this host's requests now"
	}
	return k, why
}

// wants is the rule that would let the request through, as in [egress] allow, or why there
// will be none.
func (r Refusal) wants() (rule, why string) {
	rule = r.where()
	switch {
	case r.Reason == egress.ReasonNotInBundle:
		rule = cmp.Or(r.Rule, rule)
	case r.leased() && r.seesRequest():
	case r.Reason != egress.ReasonNotListed:
		return "", "refused as " + string(r.Reason) + ", which no list of hosts changes"
	case r.seesRequest():
		rule += "/http"
	}
	parsed, err := posture.ParseEgress(rule)
	switch {
	case err != nil:
		return "", "it is not a host by its name"
	case parsed.Host == "localhost":
		return "", fmt.Sprintf("it is a service of this machine: --reach %s:%d, or reach in [egress] of config.toml, lets a session ask for it", parsed.Host, parsed.Port)
	case posture.Inside(parsed.Host):
		return "", "it leads inside: name it in [egress] allow and pin its address in [egress.pin] yourself"
	case !r.seesRequest():
		return parsed.String(), ""
	case r.Path == "" || len(r.Path) >= cutPath || strings.Contains(r.Path, "%") || urlpath.Check(r.Path) != nil:
		return "", "its path cannot be written down as one place"
	}
	return parsed.String(), ""
}

// lineOf makes one line of refusals that have their host and method in common.
func lineOf(k key, refusals []Refusal) (line Line, why string) {
	line = Line{Host: k.host, Group: k.group, Credential: k.credential, Times: len(refusals)}
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
	if k.credential != "" {
		line.Apart = append(line.Apart, apartLease)
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
	if why != "" || rule != l.Host || r.leased() != (l.Credential != "") || r.leased() && r.Group != l.Group {
		return false
	}
	if len(l.Methods) == 0 {
		return !r.seesRequest()
	}
	return slices.Contains(l.Methods, r.Method) &&
		slices.ContainsFunc(l.Paths, func(prefix string) bool { return urlpath.Below(r.Path, prefix) })
}

// Try counts what the lines would have let through of other sessions' refusals.
func (p *Proposal) Try(others Refused, sessions int) {
	p.Looked = sessions
	for i := range p.Lines {
		l := &p.Lines[i]
		for _, r := range others.Hosts {
			if l.Host != "" && l.lets(r) {
				l.Others++
			}
		}
		for _, c := range others.Calls {
			if l.Tool != "" && l.letsCall(c) {
				l.Others++
			}
		}
		for _, f := range others.Folders {
			if l.letsFolder(f) {
				l.Others++
			}
		}
	}
}
