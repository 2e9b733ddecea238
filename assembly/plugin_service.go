package assembly

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/plugin"
)

const (
	// defaultAuditRecords and maxAuditRecords are how many records one answer has.
	defaultAuditRecords = 100
	maxAuditRecords     = 1000
	// maxAuditBytes is how much they hold together.
	maxAuditBytes = 512 << 10
	// maxAuditChains is how many chains are read for one answer, the newest first.
	maxAuditChains = 200
	// maxCatalogBytes is how much the catalogue holds.
	maxCatalogBytes = 1 << 20
)

// publisher puts an event of a plugin on the bus.
type publisher func(ctx context.Context, s pluginhost.Scope, topic string, payload json.RawMessage) error

// services answer what handlers ask, within the group of the request (D-26).
func (g *stage) services() pluginhost.Services {
	s := pluginhost.Services{AuditLog: g.auditLog, ToolCatalog: g.toolCatalog, SessionInfo: g.sessionInfo, Credential: g.credential}
	if g.publish != nil {
		s.Publish = g.say
	}
	return s
}

// say publishes an event without the credentials that were handed out.
func (g *stage) say(ctx context.Context, s pluginhost.Scope, topic string, payload json.RawMessage) error {
	clean := g.result(payload)
	if !bytes.HasPrefix(bytes.TrimSpace(clean), []byte("{")) {
		return errors.New("the event holds a credential")
	}
	return g.publish(ctx, s, topic, clean)
}

// sessionOf is the open session that a request came from.
func (g *stage) sessionOf(s pluginhost.Scope) (*sealed, error) {
	found := g.of(s.Session)
	if found == nil || found.Group() != s.Group {
		return nil, fmt.Errorf("session %s is not open here", s.Session)
	}
	return found, nil
}

func (g *stage) toolCatalog(_ context.Context, scope pluginhost.Scope) (json.RawMessage, error) {
	s, err := g.sessionOf(scope)
	if err != nil {
		return nil, err
	}
	list := []listedTool{}
	size := 0
	for _, c := range s.kernel.Catalog(s.runtime.principal(s.Group(), s.ID(), "")) {
		if size += len(c.Schema) + len(c.Description); size > maxCatalogBytes {
			break
		}
		list = append(list, listedTool{c.Tool, c.Description, c.Schema, c.HighRisk})
	}
	return json.Marshal(map[string]any{"tools": list})
}

func (g *stage) sessionInfo(ctx context.Context, scope pluginhost.Scope) (json.RawMessage, error) {
	s, err := g.sessionOf(scope)
	if err != nil {
		return nil, err
	}
	return s.sessionInfo(ctx, nacre.Invocation{})
}

// credential reads a value from where the operator says it is, anew each time,
// and records that, never the value (D-21, M-32).
func (g *stage) credential(ctx context.Context, name nacre.PluginName, key string) (nacre.Secret, error) {
	source, given := g.runtime.reachOf(g.plugin(name)).values[key]
	var value nacre.Secret
	err := fmt.Errorf("[access.%s.credentials] in config.toml does not say where %s is", name, key)
	if given {
		value, err = source.Read(ctx, g.runtime.options.Getenv)
	}
	detail := map[string]string{"plugin": string(name), "key": key, "from": source.String()}
	record := nacre.Record{Kind: nacre.KindPlugin, Source: string(name), Topic: "plugin.credential", Outcome: nacre.OutcomeAllowed}
	if err != nil {
		record.Outcome, record.Reason = nacre.OutcomeDenied, err.Error()
	}
	record.Detail, _ = json.Marshal(detail) // strings always marshal
	if recordErr := g.recorder.Commit(ctx, record); err != nil || recordErr != nil {
		return nacre.Secret{}, errors.Join(err, recordErr)
	}
	g.remember(value)
	return value, nil
}

// audited is one record as a handler sees it: what an agent's own diagnostics
// tell, of all sessions of the group.
type audited struct {
	Time        string            `json:"time"`
	Kind        nacre.Kind        `json:"kind"`
	Group       nacre.Group       `json:"group"`
	Session     nacre.SessionID   `json:"session"`
	Source      string            `json:"source,omitempty"`
	Topic       string            `json:"topic,omitempty"`
	Correlation nacre.Correlation `json:"correlation,omitempty"`
	Stage       int               `json:"stage,omitempty"`
	Outcome     string            `json:"outcome,omitempty"`
	Reason      string            `json:"reason,omitempty"`
	// Detail is there for calls alone: other kinds tell of the host.
	Detail json.RawMessage `json:"detail,omitempty"`
}

// auditLog gives records of the request's group, the oldest first, across its
// sessions. Those of other groups do not exist (D-26).
func (g *stage) auditLog(ctx context.Context, scope pluginhost.Scope, f plugin.AuditFilter) (json.RawMessage, error) {
	if scope.Group == "" {
		return nil, errors.New("the request has no group")
	}
	limit := defaultAuditRecords
	if f.LastN > 0 {
		limit = min(f.LastN, maxAuditRecords)
	}
	// The record of the reading makes all before it durable, and so readable.
	err := g.recorder.Commit(ctx, nacre.Record{
		Kind: nacre.KindPlugin, Source: string(scope.Plugin), Topic: "plugin.audit", Outcome: nacre.OutcomeAllowed, Correlation: scope.Correlation,
	})
	if err != nil {
		return nil, err
	}
	chains, err := g.runtime.chainsOf(scope.Group)
	if err != nil {
		return nil, err
	}
	var found []audited
	for _, chain := range chains {
		if len(found) >= limit || ctx.Err() != nil {
			break
		}
		older, err := g.runtime.lastOf(ctx, chain, scope.Group, f, limit-len(found))
		if err != nil {
			return nil, err
		}
		found = append(older, found...)
	}
	slices.SortStableFunc(found, func(a, b audited) int { return cmp.Compare(a.Time, b.Time) }) // sessions run at the same time
	return g.answer(found)
}

// chainsOf are the chains of a group's sessions, the newest first.
func (r *Runtime) chainsOf(group nacre.Group) ([]string, error) {
	sessions, err := r.registry.List() // the newest first
	var chains []string
	for _, s := range sessions {
		for n := s.Openings; n > 0 && s.Group == group && len(chains) < maxAuditChains; n-- {
			chains = append(chains, string(s.ID)+"."+strconv.Itoa(n))
		}
	}
	return chains, err
}

// lastOf are the last records of a chain that belong to the group and that the
// filter selects. A chain that was removed has none.
func (r *Runtime) lastOf(ctx context.Context, chain string, group nacre.Group, f plugin.AuditFilter, limit int) ([]audited, error) {
	var last []audited
	err := audit.Read(r.AuditRoot(), chain, func(e audit.Entry) error {
		if e.Group == group && selects(f, e.Record) {
			if len(last) == limit {
				last = last[1:]
			}
			last = append(last, auditedOf(e.Record))
		}
		return ctx.Err()
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return last, err
}

func selects(f plugin.AuditFilter, r nacre.Record) bool {
	return (f.Correlation == "" || f.Correlation == r.Correlation) && (f.Topic == "" || f.Topic == r.Topic) &&
		(f.Outcome == "" || f.Outcome == r.Outcome) && (f.Since.IsZero() || !r.Time.Before(f.Since)) && (f.Until.IsZero() || r.Time.Before(f.Until))
}

func auditedOf(r nacre.Record) audited {
	a := audited{
		Time: r.Time.UTC().Format("2006-01-02T15:04:05.000Z"), Kind: r.Kind, Group: r.Group, Session: r.Session, Source: r.Source, Topic: r.Topic,
		Correlation: r.Correlation, Stage: r.Stage, Outcome: r.Outcome, Reason: r.Reason,
	}
	if strings.HasPrefix(string(r.Kind), "call.") {
		a.Detail = r.Detail
	}
	return a
}

// answer is what a handler gets of records: redacted, and the newest of them
// where all are too many.
func (g *stage) answer(found []audited) (json.RawMessage, error) {
	texts := make([]json.RawMessage, 0, len(found))
	size := 0
	for _, a := range slices.Backward(found) {
		raw, err := json.Marshal(a)
		if err != nil {
			return nil, err
		}
		if raw, _, err = g.runtime.redact.JSON(raw); err != nil {
			return nil, err
		}
		if size += len(raw); size > maxAuditBytes {
			break
		}
		texts = append(texts, raw)
	}
	slices.Reverse(texts)
	return json.Marshal(texts)
}
