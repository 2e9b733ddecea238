package hosting

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
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/intrinsic"
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

// Publisher puts an event of a plugin on the bus.
type Publisher func(ctx context.Context, s pluginhost.Scope, topic string, payload json.RawMessage) error

// Faces is who takes what persons do at the faces that channels show.
type Faces interface {
	Press(ctx context.Context, channel string, p plugin.Press) (plugin.Pressed, error)
	Pair(ctx context.Context, channel string, p plugin.Pairing) (code string, err error)
	Command(ctx context.Context, channel string, p plugin.Command) (said string, err error)
}

// services answer what handlers ask, within the group of the request (D-26).
func (g *Stage) services() pluginhost.Services {
	s := pluginhost.Services{AuditLog: g.auditLog, ToolCatalog: g.toolCatalog, SessionInfo: g.sessionInfo, Credential: g.credential, Publish: g.say}
	if g.faces != nil {
		s.Press = func(ctx context.Context, from pluginhost.Scope, p plugin.Press) (plugin.Pressed, error) {
			return g.faces.Press(ctx, from.Channel, p)
		}
		s.Pair = func(ctx context.Context, from pluginhost.Scope, p plugin.Pairing) (string, error) {
			return g.faces.Pair(ctx, from.Channel, p)
		}
		s.Command = func(ctx context.Context, from pluginhost.Scope, p plugin.Command) (string, error) {
			return g.faces.Command(ctx, from.Channel, p)
		}
	}
	return s
}

// say publishes an event without the credentials that were handed out.
func (g *Stage) say(ctx context.Context, s pluginhost.Scope, topic string, payload json.RawMessage) error {
	clean := g.handed.result(payload)
	if !bytes.HasPrefix(bytes.TrimSpace(clean), []byte("{")) {
		return errors.New("the event holds a credential")
	}
	return g.publish(ctx, s, topic, clean)
}

// guestOf is the open session that a request came from.
func (g *Stage) guestOf(s pluginhost.Scope) (*Guest, error) {
	found := g.guest(s.Session)
	if found == nil || found.Group != s.Group {
		return nil, fmt.Errorf("session %s is not open here", s.Session)
	}
	return found, nil
}

func (g *Stage) toolCatalog(_ context.Context, scope pluginhost.Scope) (json.RawMessage, error) {
	s, err := g.guestOf(scope)
	if err != nil {
		return nil, err
	}
	list := []intrinsic.Listed{}
	size := 0
	for _, c := range s.Tools() {
		if size += len(c.Schema) + len(c.Description); size > maxCatalogBytes {
			break
		}
		list = append(list, intrinsic.List(c))
	}
	return json.Marshal(map[string]any{"tools": list})
}

func (g *Stage) sessionInfo(_ context.Context, scope pluginhost.Scope) (json.RawMessage, error) {
	s, err := g.guestOf(scope)
	if err != nil {
		return nil, err
	}
	fields := s.Info()
	// Whose message it is concerns the plugin of its channel, and no other.
	if g.woken != nil {
		if m := g.woken(s.ID); m != nil && slices.Contains(g.Plugin(scope.Plugin).Manifest.Provides.Channels, m["channel"]) {
			fields["message"] = m
		}
	}
	return json.Marshal(fields)
}

// credential reads a value from where the operator says it is, anew each time,
// and records that, never the value (D-21, M-32).
func (g *Stage) credential(ctx context.Context, name nacre.PluginName, key string) (nacre.Secret, error) {
	to := g.reach(name)
	source, given := to.Values[key]
	var value nacre.Secret
	err := fmt.Errorf("[access.%s.credentials] in config.toml does not say where %s is", name, key)
	if given {
		err = source.BoundTo(to.Server)
	}
	if given && err == nil {
		value, err = source.Read(ctx, g.Inst.Options.Getenv)
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
	g.handed.remember(value)
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
func (g *Stage) auditLog(ctx context.Context, scope pluginhost.Scope, f plugin.AuditFilter) (json.RawMessage, error) {
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
	chains, err := chainsOf(g.Inst, scope.Group)
	if err != nil {
		return nil, err
	}
	var found []audited
	for _, chain := range chains {
		if len(found) >= limit || ctx.Err() != nil {
			break
		}
		older, err := lastOf(ctx, g.Inst, chain, scope.Group, f, limit-len(found))
		if err != nil {
			return nil, err
		}
		found = append(older, found...)
	}
	slices.SortStableFunc(found, func(a, b audited) int { return cmp.Compare(a.Time, b.Time) }) // sessions run at the same time
	return g.answer(found)
}

// chainsOf are the chains of a group's sessions, the newest first.
func chainsOf(inst *installation.Installation, group nacre.Group) ([]string, error) {
	sessions, err := inst.Registry.List() // the newest first
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
func lastOf(ctx context.Context, inst *installation.Installation, chain string, group nacre.Group, f plugin.AuditFilter, limit int) ([]audited, error) {
	var last []audited
	err := audit.Read(inst.AuditRoot(), chain, func(e audit.Entry) error {
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
func (g *Stage) answer(found []audited) (json.RawMessage, error) {
	texts := make([]json.RawMessage, 0, len(found))
	size := 0
	for _, a := range slices.Backward(found) {
		raw, err := json.Marshal(a)
		if err != nil {
			return nil, err
		}
		if raw, _, err = g.Inst.Redact.JSON(raw); err != nil {
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
