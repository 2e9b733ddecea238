package leasing

import (
	"context"
	"time"

	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/lease"
)

// checkMinted tries to read what a credential is minted with. It mints none.
func checkMinted(ctx context.Context, inst *installation.Installation, c config.Credential) installation.Finding {
	if _, err := c.Source().ReadRoot(ctx, inst.Options.Getenv); err != nil {
		return installation.Finding{Name: "credential", Status: "fail", Text: c.Name + ": " + err.Error(), Fix: "put what " + c.Mint.Kind + " mints with there"}
	}
	return installation.Finding{Name: "credential", Status: "ok", Text: c.Name + " for " + c.Host + " · minted by " + c.Mint.Kind + " for " + c.Mint.Scope() + " · stays outside", Fix: ""}
}

// Probe mints each credential that is minted, and revokes it: once per provider's table.
// It shows none.
func Probe(ctx context.Context, inst *installation.Installation) []installation.Finding {
	var findings []installation.Finding
	for _, c := range inst.Config.Credentials {
		if !c.Mint.Named() {
			continue
		}
		text, err := probe(ctx, inst, c)
		if err != nil {
			findings = append(findings, installation.Finding{Name: "probe", Status: "fail", Text: c.Name + ": " + err.Error(), Fix: "docs/credentials.md says what " + c.Mint.Kind + " needs"})
			continue
		}
		findings = append(findings, installation.Finding{Name: "probe", Status: "ok", Text: text, Fix: ""})
	}
	if findings == nil {
		return []installation.Finding{{Name: "probe", Status: "ok", Text: "config.toml has no credential that is minted", Fix: ""}}
	}
	return findings
}

// probe leases a credential as a session would, so that a crash leaves it to a sweep.
func probe(ctx context.Context, inst *installation.Installation, c config.Credential) (string, error) {
	by, err := issuerOf(inst, c)
	if err != nil {
		return "", err
	}
	ttl, err := c.Lifetime()
	if err != nil {
		return "", err
	}
	began := inst.Options.Now()
	l, err := OthersOf(inst).broker.Acquire(ctx, "probe", "main", lease.Spec{Name: c.Name, Issuer: by, TTL: ttl})
	if err != nil {
		return "", err
	}
	if err := l.Release(ctx); err != nil {
		return "", err
	}
	took := inst.Options.Now().Sub(began)
	did := " minted and revoked one for "
	if !c.Mint.Revocable() {
		did = " minted one, which nobody can revoke and nobody has, for "
	}
	return c.Name + " · " + c.Mint.Kind + did + c.Mint.Scope() + " in " + took.Round(time.Millisecond).String(), nil
}

// Sweep takes back what sessions that are gone left, on whichever machine, and says what that was.
func Sweep(ctx context.Context, inst *installation.Installation) ([]lease.Orphan, error) {
	o := OthersOf(inst)
	orphans, err := o.broker.Sweep(ctx)
	if err != nil {
		return orphans, &installation.NotReady{What: "credentials", Err: inst.Writable(err)}
	}
	others, err := o.TakeBack(ctx, 0)
	return append(orphans, others...), err
}
