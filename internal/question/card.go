// Package question promises what a person is shown before a decision. It is a card in a form that
// belongs to no service, with all that a question asks, where its risky values came from, and when
// it expires. A card is never cut. Where a face has no room for all of it, the card says where it
// can be read, and nobody approves it at that face (M-47).
//
// It is pure, sends nothing and decides nothing.
package question

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/person"
)

const (
	// The capabilities of nacre's own questions begin with a name that no plugin may have, so
	// that no tool is taken for one of them.

	// Egress is the capability of a question whether one host may be reached, which is
	// asked after a connection to it was refused (M-23).
	Egress nacre.CapabilityID = "nacre.egress"
	// Lease is the capability of a question whether a credential is minted, and for how long
	// and how often (M-30).
	Lease nacre.CapabilityID = "nacre.credential"
	// Mount is the capability of a question whether a folder is shown inside (M-42).
	Mount nacre.CapabilityID = "nacre.mount"
	// Continue is the capability of the question whether a run goes on (S-18).
	Continue nacre.CapabilityID = "nacre.continue"
)

// Digest is that of a question of nacre's own: of its kind, and of what exactly it asks for.
func Digest(kind nacre.CapabilityID, arguments []byte) string {
	digest := sha256.Sum256(append([]byte(string(kind)+"\n"), arguments...))
	return hex.EncodeToString(digest[:])
}

// Subject is what a question was about, in the words that its record has: of one about a host with
// the rule, of one about a folder with its path.
func Subject(capability, rule, folder string) string {
	switch {
	case capability == string(Egress) && rule != "":
		return "connect to " + rule
	case capability == string(Mount) && folder != "":
		return "see the folder " + folder
	}
	return capability
}

// KindOf is what a session's question is about.
func KindOf(q nacre.Question) person.Kind {
	switch q.Capability {
	case Egress:
		return person.Egress
	case Lease:
		return person.Credential
	case Mount:
		return person.Mount
	case Continue:
		return person.Run
	}
	return person.Tool
}

// Line is one line of a card, or several where Text has line breaks of its own. Both parts
// are plain: nothing in them moves a cursor, reorders what is read, or hides.
type Line struct {
	Label string `json:"label"`
	Text  string `json:"text"`
	// Risky marks what an outsider may have written.
	Risky bool `json:"risky,omitempty"`
	// Claimed marks what the agent says of itself, which nobody checked.
	Claimed bool `json:"claimed,omitempty"`
}

// Card is what a person is shown of something that waits.
type Card struct {
	// ID is what an answer names.
	ID      string            `json:"id"`
	Kind    person.Kind       `json:"kind"`
	Risk    nacre.SafetyClass `json:"risk"`
	Session nacre.SessionID   `json:"session,omitempty"`
	Group   nacre.Group       `json:"group,omitempty"`
	// Title says in a few words what is asked for.
	Title string `json:"title"`
	// Lines are all of the rest, in the order in which they are read.
	Lines []Line `json:"lines"`
	// Asked is the digest of the question itself, to which the answer is bound.
	Asked string `json:"asked"`
	// Approvers is how many persons have to approve; 0 means one.
	Approvers int `json:"approvers,omitempty"`
	// Expires is when the answer is no; zero where it waits without an end.
	Expires time.Time `json:"expires,omitzero"`
}

// Matter is what rights are held against.
func (c Card) Matter() person.Matter {
	return person.Matter{Kind: c.Kind, Risk: c.Risk, Group: c.Group}
}

// Of makes the card of a session's question.
func Of(q nacre.Question) Card {
	c := Card{
		ID: q.ID, Kind: KindOf(q), Risk: q.Safety, Session: q.Session, Group: q.Group, Asked: q.Digest,
		Approvers: q.Approvers, Expires: q.Expires,
	}
	c.Title = fmt.Sprintf("%s wants to run %s", plain(string(q.Group)), plain(string(q.Capability)))
	if to := HostOf(q); to != "" {
		c.Title = fmt.Sprintf("%s wants to reach %s", plain(string(q.Group)), to)
		if strings.Contains(to, "xn--") {
			c.add("look", "this name is in another alphabet: it may look like a name that it is not", true)
		}
	}
	if what := LeaseOf(q); what != "" {
		c.Title = fmt.Sprintf("%s wants the credential %s", plain(string(q.Group)), what)
	}
	if f, ok := FolderOf(q); ok {
		c.Title = fmt.Sprintf("%s wants to see the folder %s", plain(string(q.Group)), plain(f.Folder))
		if f.Keys != "" {
			c.add("look", plain(f.Keys), true)
		}
	}
	for _, look := range Looks(q) {
		c.add("look", look, true)
	}
	c.add("arguments", indented(q.Arguments), false)
	for _, f := range q.Files {
		c.add("file", fmt.Sprintf("%s: %d bytes, sha256 %s, %q", plain(f.Argument), f.Bytes, plain(f.SHA256), plain(f.Name)), false)
	}
	for _, origin := range q.Origins {
		c.add("origin", plain(CameFrom(origin)), origin.Provenance.Label() != nacre.Trusted)
	}
	if q.Why != "" {
		c.add("asked for", plain(q.Why), false)
	}
	if q.AgentWords != "" {
		c.Lines = append(c.Lines, Line{Label: "the agent says", Text: plain(q.AgentWords), Claimed: true})
	}
	return c
}

func (c *Card) add(label, text string, risky bool) {
	c.Lines = append(c.Lines, Line{Label: label, Text: text, Risky: risky})
}

// plain is Escape of what has been through JSON, which a question has on the way to
// another process: a card is the same in both.
func plain(s string) string { return Escape(string([]rune(s))) }

// indented is a JSON document, a member a line.
func indented(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "null"
	}
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		return plain(string(raw))
	}
	lines := strings.Split(unescaped(out.String()), "\n")
	for i := range lines {
		lines[i] = plain(lines[i])
	}
	return strings.Join(lines, "\n")
}

// unescaped writes the characters of HTML as they are, which some writers of JSON escape.
func unescaped(document string) string {
	var b strings.Builder
	for i := 0; i < len(document); i++ {
		if document[i] != '\\' || i+1 == len(document) {
			b.WriteByte(document[i])
			continue
		}
		if end := i + len(`\u003c`); document[i+1] == 'u' && end <= len(document) {
			if plain := htmlCharacter(document[i+2 : end]); plain != "" {
				b.WriteString(plain)
				i = end - 1
				continue
			}
		}
		b.WriteString(document[i : i+2])
		i++
	}
	return b.String()
}

// htmlCharacter is what stands for one of the characters that writers of JSON escape for HTML.
func htmlCharacter(digits string) string {
	switch strings.ToLower(digits) {
	case "003c":
		return "<"
	case "003e":
		return ">"
	case "0026":
		return "&"
	case "2028":
		return "\u2028"
	case "2029":
		return "\u2029"
	}
	return ""
}

// Host is what a question of the kind egress asks for, as its arguments.
type Host struct {
	Host     string         `json:"host"`
	Port     uint16         `json:"port"`
	Protocol nacre.Protocol `json:"protocol"`
}

// HostOf is what a question asks to reach; empty for any other question.
func HostOf(q nacre.Question) string {
	var h Host
	if q.Capability != Egress || json.Unmarshal(q.Arguments, &h) != nil {
		return ""
	}
	return fmt.Sprintf("%s:%d (%s)", Escape(h.Host), h.Port, h.Protocol)
}

// Budget is what a question of the kind credential asks for, as its arguments.
type Budget struct {
	Credential string   `json:"credential"`
	Minted     string   `json:"minted"`
	Host       string   `json:"host"`
	Methods    []string `json:"methods"`
	Paths      []string `json:"paths"`
	Hours      int      `json:"hours"`
	Renewals   int      `json:"renewals"`
}

// Login is what a question of the kind credential asks for of a key of SSH, as its arguments.
type Login struct {
	Credential string `json:"credential"`
	// Login is USER@HOST:PORT, Key and HostKeys are fingerprints.
	Login    string   `json:"login"`
	Key      string   `json:"key"`
	HostKeys []string `json:"host_keys"`
	// Once says that the answer is for one login, and not for the session.
	Once bool `json:"once"`
}

// LoginOf is the login that a question asks for.
func LoginOf(q nacre.Question) (l Login, ok bool) {
	err := json.Unmarshal(q.Arguments, &l)
	return l, q.Capability == Lease && err == nil && l.Login != ""
}

// LeaseOf is which credential a question asks for, and for how long or for whom; empty for
// any other question.
func LeaseOf(q nacre.Question) string {
	if l, ok := LoginOf(q); ok {
		return fmt.Sprintf("%s to log in as %s over SSH", Escape(l.Credential), Escape(l.Login))
	}
	var b Budget
	if q.Capability != Lease || json.Unmarshal(q.Arguments, &b) != nil {
		return ""
	}
	return fmt.Sprintf("%s for %d h and %d renewals", Escape(b.Credential), b.Hours, b.Renewals)
}

// Folder is what a question of the kind mount asks for, as its arguments.
type Folder struct {
	// Folder is its path on the host, without symbolic links, and Asked how the agent wrote it.
	Folder string `json:"folder"`
	Asked  string `json:"asked"`
	// Inside is where it would be read, and Access how: read-only.
	Inside string `json:"inside"`
	Access string `json:"access"`
	// Holds says at a glance what is in it, and Keys what looks like keys there.
	Holds string `json:"holds"`
	Keys  string `json:"keys,omitempty"`
}

// FolderOf is the folder that a question asks for.
func FolderOf(q nacre.Question) (f Folder, ok bool) {
	err := json.Unmarshal(q.Arguments, &f)
	return f, q.Capability == Mount && err == nil && f.Folder != ""
}

// CameFrom says where a risky value was seen (K-26).
func CameFrom(o nacre.Origin) string {
	switch {
	case o.Provenance == nacre.SeenNowhere || len(o.Sources) == 0:
		return fmt.Sprintf("%s came from nowhere that is known: the agent made it up or put it together", o.Argument)
	case o.Provenance.Label() == nacre.Trusted:
		return fmt.Sprintf("%s was seen in %s", o.Argument, strings.Join(o.Sources, ", "))
	default:
		return fmt.Sprintf("%s came from an UNTRUSTED source: %s", o.Argument, strings.Join(o.Sources, ", "))
	}
}

// Digest is that of all that the card shows. Whoever answers sends it back, so that what
// was answered is what was shown.
func (c Card) Digest() string {
	c.Expires = c.Expires.UTC()
	data, err := json.Marshal(c)
	if err != nil {
		return "" // a year beyond 9999: nobody can have been shown it
	}
	sum := sha256.Sum256(append([]byte("nacre.card.1\n"), data...))
	return hex.EncodeToString(sum[:])
}

// Room is how much text a face shows in one message, in UTF-16 units, which is how the
// services count, less what their own markup takes. Zero means that there is no limit.
func Room(f person.Face) int {
	switch f {
	case person.Terminal, person.Web:
		return 0
	case person.Telegram:
		return 3500
	case person.Slack:
		return 2800
	case person.Discord:
		return 1800
	}
	return 1 // a face that is not known shows nothing
}

// Fits tells whether a face has room for the whole card. Where it has not, nobody approves
// the question there.
func (c Card) Fits(f person.Face) bool {
	room := Room(f)
	return room == 0 || units(c.Text()) <= room
}

// Shown is what a face shows: the card, or what it is about and where the card is to be read.
func (c Card) Shown(f person.Face) string {
	if c.Fits(f) {
		return c.Text()
	}
	return fmt.Sprintf("%s\nThe whole question has %s characters, which do not fit here. Open it in a terminal (nacre approvals show %s) or on the web page; it can be denied here.\n%s",
		clipped(c.head()), strconv.Itoa(utf8.RuneCountInString(c.Text())), c.ID, c.expiry())
}

// maxHead is how much of a title stands over a card that does not fit, in bytes.
const maxHead = 300

// clipped is a head that says of itself that it is not all.
func clipped(head string) string {
	if len(head) <= maxHead {
		return head
	}
	return strings.ToValidUTF8(head[:maxHead], "") + " <CUT>"
}

// Text is the whole card as plain text.
func (c Card) Text() string {
	var b strings.Builder
	b.WriteString(c.head() + "\n")
	for _, line := range c.Lines {
		mark := ""
		switch {
		case line.Claimed:
			mark = " (not checked)"
		case line.Risky:
			mark = " (!)"
		}
		text := line.Text
		if strings.Contains(text, "\n") {
			text = "\n  " + strings.ReplaceAll(text, "\n", "\n  ")
		}
		fmt.Fprintf(&b, "%s%s: %s\n", line.Label, mark, text)
	}
	b.WriteString(c.expiry())
	return b.String()
}

func (c Card) head() string {
	head := fmt.Sprintf("%s  %s (%s, %s)", Escape(c.ID), c.Title, c.Kind, c.Risk)
	if c.Approvers > 1 {
		head += fmt.Sprintf(", %d persons have to approve", c.Approvers)
	}
	return head
}

func (c Card) expiry() string {
	if c.Expires.IsZero() {
		return "expires: never\n"
	}
	return "expires: " + c.Expires.UTC().Format("2006-01-02 15:04:05 MST") + "\n"
}

// units counts as UTF-16 does.
func units(s string) (n int) {
	for _, r := range s {
		n++
		if r > 0xffff {
			n++
		}
	}
	return n
}
