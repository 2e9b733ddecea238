package consent

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

// Wants are the permissions that a manifest asks for: what an operator is shown
// and agrees to.
type Wants struct {
	Tools       []ToolWant `json:"tools"`
	Hosts       []string   `json:"hosts"`
	Credentials []string   `json:"credentials"`
	// Env are variables in which an MCP server finds credentials, as NAME=KEY.
	Env []string `json:"env,omitempty"`
	// Project is "", "read" or "write".
	Project    string   `json:"project"`
	Listen     bool     `json:"listen"`
	Channels   []string `json:"channels"`
	Hooks      []string `json:"hooks"`
	Subscribes []string `json:"subscribes"`
	// Server is the address of an MCP server elsewhere that carries out the tools.
	Server string `json:"server"`
}

// ToolWant is what one tool may do, and what guards it.
type ToolWant struct {
	Name        string   `json:"name"`
	Safety      string   `json:"safety_class"`
	HighRisk    bool     `json:"high_risk"`
	Sensitivity string   `json:"sensitivity"`
	Returns     string   `json:"returns"`
	Sinks       []string `json:"sinks"`
	Kinds       []string `json:"kinds,omitempty"`
	Text        []string `json:"text,omitempty"`
	Mints       []string `json:"mints,omitempty"`
	Authors     []string `json:"authors,omitempty"`
	Senders     []string `json:"senders,omitempty"`
	Files       []string `json:"files"`
}

// WantsOf reads the wants out of a manifest.
func WantsOf(m plugin.Manifest) Wants {
	w := Wants{
		Tools: []ToolWant{}, Hosts: sorted(m.Hosts), Credentials: []string{},
		Project: string(m.Project), Listen: m.Listen,
		Channels: sorted(m.Provides.Channels), Hooks: sorted(m.Provides.Hooks), Subscribes: sorted(m.Subscribes), Server: m.MCP.URL,
	}
	for _, t := range m.Provides.Tools {
		w.Tools = append(w.Tools, ToolWant{
			Name: string(t.Name), Safety: t.Safety.String(), HighRisk: t.HighRisk, Sensitivity: t.Sensitivity.String(),
			Returns: t.Returns.String(), Sinks: sorted(t.Sinks), Files: sorted(t.Files),
			Kinds: kinds(t.Kinds), Text: t.Text, Mints: t.Mints, Authors: t.Authors, Senders: t.Senders,
		})
	}
	for _, c := range m.Install.Credentials {
		w.Credentials = append(w.Credentials, c.Key)
	}
	for _, name := range slices.Sorted(maps.Keys(m.MCP.Env)) {
		w.Env = append(w.Env, name+"="+m.MCP.Env[name])
	}
	return w
}

// kinds are in words: "to: email".
func kinds(of map[string]nacre.ValueKind) (words []string) {
	for _, sink := range slices.Sorted(maps.Keys(of)) {
		words = append(words, sink+": "+string(of[sink]))
	}
	return words
}

func sorted(list []string) []string {
	list = append([]string{}, list...)
	slices.Sort(list)
	return slices.Compact(list)
}

// Beyond lists, in words, what w wants and old did not, guards that fell away
// included. It is empty where nothing has to be agreed to again.
func (w Wants) Beyond(old Wants) []string {
	var more []string
	for _, list := range []struct {
		what     string
		old, now []string
	}{
		{"host", old.Hosts, w.Hosts}, {"credential", old.Credentials, w.Credentials}, {"credential in the environment,", old.Env, w.Env}, {"channel", old.Channels, w.Channels},
		{"hook", old.Hooks, w.Hooks}, {"events", old.Subscribes, w.Subscribes},
	} {
		for _, one := range without(list.now, list.old) {
			more = append(more, list.what+" "+one)
		}
	}
	if reach(w.Project) > reach(old.Project) {
		more = append(more, "project "+w.Project)
	}
	if w.Listen && !old.Listen {
		more = append(more, "takes connections")
	}
	if w.Server != "" && w.Server != old.Server {
		more = append(more, "server "+w.Server)
	}
	for _, t := range w.Tools {
		more = append(more, t.beyond(old.Tools)...)
	}
	return more
}

func (t ToolWant) beyond(old []ToolWant) []string {
	at := slices.IndexFunc(old, func(o ToolWant) bool { return o.Name == t.Name })
	if at < 0 {
		return []string{fmt.Sprintf("tool %s (%s)", t.Name, t.Words())}
	}
	was := old[at]
	var more []string
	if harm(t.Safety) > harm(was.Safety) {
		more = append(more, fmt.Sprintf("tool %s is %s, was %s", t.Name, t.Safety, was.Safety))
	}
	if was.HighRisk && !t.HighRisk {
		more = append(more, fmt.Sprintf("tool %s asks nobody any more", t.Name))
	}
	if t.Returns != was.Returns && t.Returns == nacre.Trusted.String() {
		more = append(more, fmt.Sprintf("tool %s wants its results trusted", t.Name))
	}
	if t.Sensitivity != was.Sensitivity {
		more = append(more, fmt.Sprintf("tool %s handles %s, was %s", t.Name, t.Sensitivity, was.Sensitivity))
	}
	for _, sink := range without(was.Sinks, t.Sinks) {
		more = append(more, fmt.Sprintf("tool %s no longer guards the argument %s", t.Name, sink))
	}
	for _, text := range without(was.Text, t.Text) {
		more = append(more, fmt.Sprintf("tool %s no longer looks into the text of %s", t.Name, text))
	}
	for _, kind := range without(t.Kinds, was.Kinds) {
		more = append(more, fmt.Sprintf("tool %s takes as the kind of an argument %s", t.Name, kind))
	}
	for _, place := range without(t.Mints, was.Mints) {
		more = append(more, fmt.Sprintf("tool %s wants what stands at %s of its results taken for its system's own", t.Name, place))
	}
	for _, place := range without(t.Authors, was.Authors) {
		more = append(more, fmt.Sprintf("tool %s wants who stands at %s of its results taken for their authenticated author", t.Name, place))
	}
	for _, place := range without(t.Senders, was.Senders) {
		more = append(more, fmt.Sprintf("tool %s wants who stands at %s of its results answered where you say so", t.Name, place))
	}
	for _, file := range without(t.Files, was.Files) {
		more = append(more, fmt.Sprintf("tool %s gets the files that %s names", t.Name, file))
	}
	return more
}

// Words say what a tool does, in a few.
func (t ToolWant) Words() string {
	words := []string{t.Safety}
	if t.HighRisk {
		words = append(words, "asks every time")
	}
	if t.Sensitivity != nacre.SensitiveNone.String() {
		words = append(words, t.Sensitivity)
	}
	if t.Returns == nacre.Trusted.String() {
		words = append(words, "results trusted")
	}
	if len(t.Files) > 0 {
		words = append(words, "gets files")
	}
	return strings.Join(words, ", ")
}

// Rows are the wants as a table: kind, name, and words where there are any.
func (w Wants) Rows() [][]string {
	var rows [][]string
	for _, t := range w.Tools {
		rows = append(rows, []string{"tool", t.Name, t.Words()})
	}
	for _, list := range []struct {
		kind, words string
		names       []string
	}{
		{"host", "", w.Hosts}, {"credential", "", w.Credentials}, {"env", "the MCP server finds this credential in its environment", w.Env}, {"channel", "brings messages in", w.Channels},
		{"hook", "", w.Hooks}, {"events", "is told of", w.Subscribes},
	} {
		for _, name := range list.names {
			words := list.words
			if name == "*" {
				words = "any that config.toml names"
			}
			rows = append(rows, []string{list.kind, name, words})
		}
	}
	if w.Project != "" {
		rows = append(rows, []string{"project", w.Project, "the folder that an agent works on"})
	}
	if w.Listen {
		rows = append(rows, []string{"listen", "", "takes connections at the address in config.toml"})
	}
	if w.Server != "" {
		rows = append(rows, []string{"server", w.Server, "carries out the tools elsewhere"})
	}
	return rows
}

func without(list, known []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(known, s) })
}

// reach orders how much of a project is wanted; what is unknown is most.
func reach(project string) int { return rank(project, "", "read", "write") }

// harm orders safety classes; what is unknown is worst.
func harm(class string) int {
	return rank(class, nacre.Read.String(), nacre.Write.String(), nacre.Destructive.String())
}

func rank(s string, order ...string) int {
	if at := slices.Index(order, s); at >= 0 {
		return at
	}
	return len(order)
}
