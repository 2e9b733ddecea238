package memory

import (
	"context"
	_ "embed" // the manifest, the further tools and the skill
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nacre-dev/nacre"
)

// Plugin is the first part of the tools' capability ids.
const Plugin = "memory"

const (
	// shownWhole is up to how many characters a result keeps the seed's form. A search with its
	// default limit and a whole brief fit, even with the longest entries.
	shownWhole = 256 << 10
	// changesPerMinute are those that a principal may make of one kind, in all of its
	// sessions: so many that each session's own limit is what stops it (D-41, K-35).
	changesPerMinute = 3 * MaxStores
)

//go:embed manifest.json
var manifest []byte

//go:embed more.json
var more []byte

//go:embed skill.md
var skill string

// Skill is the markdown that teaches an agent to use the tools (the seed's
// instructions, D-41).
func Skill() string { return skill }

// tool is what this room reads of a tool's declaration.
type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"arguments_schema"`
}

// Tools are the seed's four tools with its schemas, and memory_get and
// memory_link (D-41). A call for any group but the store's is refused.
func Tools(s *Store) ([]nacre.Tool, error) {
	declared, err := declarations()
	if err != nil {
		return nil, err
	}
	tools := make([]nacre.Tool, 0, len(declared))
	for _, d := range declared {
		o, ok := operations{s}.named(d.Name)
		if !ok {
			return nil, fmt.Errorf("memory: nothing carries out %s", d.Name)
		}
		tools = append(tools, nacre.Tool{
			Capability: nacre.Capability{
				ID: nacre.CapabilityID(Plugin + "." + d.Name), Tool: nacre.ToolName(d.Name), Name: d.Name, Description: d.Description,
				Safety: o.safety, Sensitivity: nacre.SensitiveMemory, Schema: d.Schema, Returns: nacre.Trusted, Handling: nacre.Handling{Behavioural: o.behavioral},
				Rate: o.rate(),
			},
			Driver: driver{s, o.do}, ShownWhole: shownWhole,
		})
	}
	return tools, nil
}

func declarations() ([]tool, error) {
	var m struct {
		Provides struct {
			Tools []tool `json:"tools"`
		} `json:"provides"`
	}
	var further []tool
	if err := errors.Join(json.Unmarshal(manifest, &m), json.Unmarshal(more, &further)); err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	return append(m.Provides.Tools, further...), nil
}

// operation is what a tool does, and what the host says of it.
type operation struct {
	safety nacre.SafetyClass
	// behavioral marks what later sessions act on (M-52).
	behavioral bool
	do         func(ctx context.Context, w Writer, args json.RawMessage) (any, error)
}

// rate is the class's own for what only reads.
func (o operation) rate() nacre.RateLimit {
	if o.safety == nacre.Read {
		return nacre.RateLimit{}
	}
	return nacre.RateLimit{Calls: changesPerMinute, Window: time.Minute}
}

// operations are what the tools of a memory do.
type operations struct{ store *Store }

func (o operations) named(name string) (operation, bool) {
	switch name {
	case "memory_store":
		return operation{nacre.Write, true, o.doStore}, true
	case "memory_search": // as far as the entries found
		return operation{nacre.Read, false, o.doSearch}, true
	case string(BriefTool): // trusted entries alone
		return operation{nacre.Read, false, o.doBrief}, true
	case "memory_delete":
		return operation{nacre.Write, false, o.doDelete}, true
	case "memory_get": // as far as the entry
		return operation{nacre.Read, false, o.doGet}, true
	case "memory_link":
		return operation{nacre.Write, true, o.doLink}, true
	}
	return operation{}, false
}

// driver carries out one operation. What it tells is trusted as far as the least
// trusted entry in it: see [Entry.Told] (K-25, M-52).
type driver struct {
	store *Store
	do    func(context.Context, Writer, json.RawMessage) (any, error)
}

// Do implements nacre.Driver.
func (d driver) Do(ctx context.Context, in nacre.Invocation) (json.RawMessage, error) {
	result, _, err := d.DoLabelled(ctx, in)
	return result, err
}

// DoLabelled implements nacre.LabelledDriver. It takes group and session from
// the principal and from nowhere else.
func (d driver) DoLabelled(ctx context.Context, in nacre.Invocation) (json.RawMessage, nacre.Label, error) {
	if in.Principal.Group != d.store.group || in.Principal.Session == "" {
		return nil, nacre.Untrusted, fmt.Errorf("memory of group %s asked for by group %q, session %q", d.store.group, in.Principal.Group, in.Principal.Session)
	}
	result, err := d.do(ctx, Writer{Session: in.Principal.Session, Label: in.Label}, in.Arguments)
	if err != nil {
		return nil, nacre.Untrusted, refusal(err)
	}
	label := nacre.Trusted
	if recalled, ok := result.(interface{ trust() nacre.Label }); ok {
		label = recalled.trust()
	}
	raw, err := json.Marshal(result)
	return raw, label, err
}

// refusal puts what the agent can act on into its words; the rest stays an error.
func refusal(err error) error {
	for known, code := range map[error]string{ErrNotFound: "NOT_FOUND", ErrLimit: "SESSION_LIMIT", ErrTrusted: "TRUSTED_ENTRY", ErrInvalid: "INVALID_ENTRY", ErrQuery: "INVALID_SEARCH"} {
		if errors.Is(err, known) {
			return &nacre.Refusal{Code: nacre.CodeHandlerError, Message: err.Error(), Original: code}
		}
	}
	return err
}

func (o operations) doStore(ctx context.Context, w Writer, raw json.RawMessage) (any, error) {
	var args struct {
		Type, Content, Supersedes string
		Tags                      []string
	}
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, err
	}
	e, err := o.store.Add(ctx, w, Draft{Type: args.Type, Content: args.Content, Tags: args.Tags, Supersedes: args.Supersedes})
	return struct {
		ID         string      `json:"id"`
		Status     string      `json:"status"`
		Type       string      `json:"type"`
		Behavioral bool        `json:"behavioral"`
		Trust      nacre.Label `json:"trust"`
		Supersedes string      `json:"supersedes,omitempty"`
		Redacted   bool        `json:"redacted,omitempty"`
		Provenance Provenance  `json:"provenance"`
	}{e.ID, "stored", e.Type, e.Behavioral, e.Trust, args.Supersedes, e.Redacted, e.Provenance}, err
}

func (o operations) doSearch(ctx context.Context, w Writer, raw json.RawMessage) (any, error) {
	var args struct {
		Query, Type       string
		Tags              []string
		IncludeSuperseded bool `json:"include_superseded"`
		Limit             *int
	}
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, err
	}
	q := Query{Text: args.Query, Tags: args.Tags, Type: args.Type, Superseded: args.IncludeSuperseded, Own: true}
	if args.Limit != nil {
		if q.Limit = *args.Limit; q.Limit < 1 { // more than 100 the schema refuses
			return nil, fmt.Errorf("%w: limit is %d: use 1 to %d", ErrQuery, q.Limit, MaxResults)
		}
	}
	hits, err := o.store.Search(ctx, q)
	if err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(hits))
	for _, hit := range hits {
		ids = append(ids, hit.ID)
	}
	return found{Results: hits, Count: len(hits)}, o.store.Recalled(ctx, w, ids)
}

// found is what a search tells.
type found struct {
	Results []Hit `json:"results"`
	Count   int   `json:"count"`
}

func (f found) trust() nacre.Label {
	lowest := nacre.Trusted
	for _, hit := range f.Results {
		lowest = lowest.And(hit.Told())
	}
	return lowest
}

func (o operations) doBrief(ctx context.Context, w Writer, raw json.RawMessage) (any, error) {
	var args struct {
		IncludeProvenance bool `json:"include_provenance"`
	}
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, err
	}
	brief, err := o.store.Brief(ctx, args.IncludeProvenance)
	if err != nil {
		return nil, err
	}
	return brief, o.store.Recalled(ctx, w, brief.IDs())
}

func (o operations) doDelete(ctx context.Context, w Writer, raw json.RawMessage) (any, error) {
	var args struct{ ID string }
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, err
	}
	restored, err := o.store.Delete(ctx, w, args.ID)
	if restored == nil {
		restored = []string{}
	}
	return map[string]any{"id": args.ID, "status": "deleted", "restored": restored}, err
}

func (o operations) doGet(ctx context.Context, w Writer, raw json.RawMessage) (any, error) {
	var args struct{ ID string }
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, err
	}
	e, links, err := o.store.Get(ctx, args.ID)
	if err == nil && !o.store.working.sees(e.Tags) {
		err = fmt.Errorf("%w: %.80q", ErrNotFound, args.ID)
	}
	if err != nil {
		return nil, err
	}
	return linked{e, links}, o.store.Recalled(ctx, w, []string{e.ID})
}

// linked is what is told of one entry.
type linked struct {
	Entry
	Links []Link `json:"links"`
}

func (l linked) trust() nacre.Label { return l.Told() }

func (o operations) doLink(ctx context.Context, w Writer, raw json.RawMessage) (any, error) {
	l := Link{Kind: EdgePrevents}
	if err := json.Unmarshal(raw, &l); err != nil {
		return nil, err
	}
	return map[string]any{"status": "linked", "from": l.From, "to": l.To, "kind": l.Kind}, o.store.Link(ctx, w, l)
}
