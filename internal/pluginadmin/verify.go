package pluginadmin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/access"
	"github.com/nacre-dev/nacre/internal/hosting"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/plugin"
)

// VerifyPlugins starts each plugin that can verify itself and asks it whether
// its credentials and its network are such that it can work (D-29). Each has 10 s
// to start and 10 s to answer; they are asked at the same time.
func VerifyPlugins(ctx context.Context, inst *installation.Installation) []installation.Finding {
	found, err := access.Plugins(inst)
	if err != nil {
		return nil // checkPlugins says it
	}
	var able []pluginhost.Found
	for _, f := range found {
		if f.Manifest.Verify && unfit(inst, f) == nil && inUse(inst, f) {
			able = append(able, f)
		}
	}
	if len(able) == 0 {
		return []installation.Finding{{Name: "verify", Status: "ok", Text: "no plugin that is in use verifies itself", Fix: ""}}
	}
	findings, err := verifyAll(ctx, inst, "nacre doctor --live", able)
	if err != nil {
		findings = append(findings, installation.Finding{Name: "verify", Status: "fail", Text: err.Error(), Fix: ""})
	}
	return findings
}

// VerifyPlugin asks one plugin the same, whether it is in use or not. It finds nothing where the
// plugin cannot verify itself, and warns of what it lacks where that keeps it from being asked.
func VerifyPlugin(ctx context.Context, inst *installation.Installation, name nacre.PluginName) ([]installation.Finding, error) {
	found, err := access.Plugins(inst)
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		if f.Name != name || !f.Manifest.Verify || unfit(inst, f) != nil {
			continue
		}
		lacks := slices.DeleteFunc(missing(f, access.ReachOf(inst, f)), func(text string) bool { return strings.Contains(text, optional) })
		if len(lacks) > 0 {
			text := "it was not tried, because it wants " + strings.Join(lacks, "; ")
			return []installation.Finding{{Name: "plugin " + string(name), Status: "warn", Text: text, Fix: "nacre doctor --live"}}, nil
		}
		return verifyAll(ctx, inst, "nacre plugin setup", []pluginhost.Found{f})
	}
	return nil, nil
}

func verifyAll(ctx context.Context, inst *installation.Installation, by string, able []pluginhost.Found) (findings []installation.Finding, err error) {
	err = hosting.Try(ctx, inst, by, able, func(host *pluginhost.Host) {
		findings = make([]installation.Finding, len(able))
		var asking sync.WaitGroup
		for i, f := range able {
			asking.Go(func() { findings[i] = verified(f, host.Verify(ctx, f.Name)) })
		}
		asking.Wait()
	})
	return findings, err
}

// TryPlugins starts what sessions start, and tells which plugins do not (F-63). One
// that sees a project is left out: there is none here.
func TryPlugins(ctx context.Context, inst *installation.Installation) []installation.Finding {
	found, err := access.Plugins(inst)
	if err != nil {
		return nil // the check of plugins tells it
	}
	found = slices.DeleteFunc(found, func(f pluginhost.Found) bool {
		return unfit(inst, f) != nil || !inUse(inst, f) || f.Manifest.Project != plugin.ProjectNone
	})
	if len(found) == 0 {
		return nil
	}
	var findings []installation.Finding
	err = hosting.Try(ctx, inst, "nacre doctor", found, func(host *pluginhost.Host) {
		for _, f := range found {
			err := host.Problem(f.Name)
			switch {
			case err == nil:
			case len(missing(f, access.ReachOf(inst, f))) > 0:
				findings = append(findings, installation.Finding{Name: "plugin " + string(f.Name), Status: "warn", Text: "it does not start without what it wants: " + err.Error(), Fix: "nacre plugin show " + string(f.Name)})
			default:
				findings = append(findings, installation.Finding{Name: "plugin " + string(f.Name), Status: "fail", Text: "it does not start: " + err.Error(), Fix: "mend or remove " + f.Dir})
			}
		}
	})
	if err != nil {
		findings = append(findings, installation.Finding{Name: "plugins", Status: "warn", Text: err.Error(), Fix: "nacre plugin list"})
	}
	if len(findings) > 0 {
		return findings
	}
	return []installation.Finding{{Name: "plugins", Status: "ok", Text: fmt.Sprintf("%d in use, and each starts", len(found))}}
}

func verified(f pluginhost.Found, err error) installation.Finding {
	if err != nil {
		return installation.Finding{Name: "verify " + string(f.Name), Status: "fail", Text: err.Error(), Fix: "nacre plugin setup " + string(f.Name)}
	}
	return installation.Finding{Name: "verify " + string(f.Name), Status: "ok", Text: "its credentials and its network are in order", Fix: ""}
}
