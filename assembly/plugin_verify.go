package assembly

import (
	"context"
	"errors"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/pluginhost"
)

// VerifyPlugins starts each plugin that can verify itself and asks it whether
// its credentials and its network are such that it can work (D-29). Each has 10 s
// to start and 10 s to answer; they are asked at the same time.
func (r *Runtime) VerifyPlugins(ctx context.Context) []Finding {
	found, err := r.plugins()
	if err != nil {
		return nil // checkPlugins says it
	}
	var able []pluginhost.Found
	for _, f := range found {
		if f.Manifest.Verify && r.unfit(f) == nil && r.inUse(f) {
			able = append(able, f)
		}
	}
	if len(able) == 0 {
		return []Finding{{"verify", "ok", "no plugin that is in use verifies itself", ""}}
	}
	findings, err := r.verifyAll(ctx, able)
	if err != nil {
		findings = append(findings, Finding{"verify", "fail", err.Error(), ""})
	}
	return findings
}

func (r *Runtime) verifyAll(ctx context.Context, able []pluginhost.Found) (findings []Finding, err error) {
	held, err := r.holder(ctx, "verify", "nacre doctor --live", nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, held.Close(ctx, "verified", true)) }()
	g := r.newStage(held, able)
	g.of = func(nacre.SessionID) *sealed { return nil }
	options, err := g.options(nil)
	if err != nil {
		return nil, err
	}
	host, err := pluginhost.Start(ctx, able, options)
	if err != nil {
		return nil, err
	}
	defer g.close()
	defer func() { err = errors.Join(err, host.Close(ctx)) }()
	findings = make([]Finding, len(able))
	var asking sync.WaitGroup
	for i, f := range able {
		asking.Go(func() { findings[i] = verified(f, host.Verify(ctx, f.Name)) })
	}
	asking.Wait()
	return findings, nil
}

func verified(f pluginhost.Found, err error) Finding {
	if err != nil {
		return Finding{"verify " + string(f.Name), "fail", err.Error(), "nacre plugin setup " + string(f.Name)}
	}
	return Finding{"verify " + string(f.Name), "ok", "its credentials and its network are in order", ""}
}
