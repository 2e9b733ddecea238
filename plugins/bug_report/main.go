// Command handler is the bug_report plugin (D-35). It files an issue on GitHub or Gitea that has
// both sides of a failure, the agent's account and what the host recorded of the calls.
//
// It promises that the account stands in the issue as text that does nothing, and that secrets and
// paths it knows the form of are taken out. Nothing of another group is in it, and a report whose
// answer got lost is not filed twice. It cannot tell a secret that looks like a word; that is why a
// person is asked first.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

const verifyTime = 8 * time.Second // below what the host waits, so that the reason gets there

func main() {
	if err := plugin.Serve(handler(time.Now)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type reporter struct {
	config config
	dir    string
	now    func() time.Time
}

func handler(now func() time.Time) plugin.Handler {
	p := reporter{now: now}
	return plugin.Handler{
		Initialize: p.initialize,
		Verify:     p.verify,
		Tools:      map[nacre.ToolName]plugin.ToolFunc{"create_bug_report": plugin.Tool(p.create)},
	}
}

// initialize takes a configuration that names no repository: most people
// never file a report, and are not to be told that a plugin failed.
func (p *reporter) initialize(_ context.Context, s plugin.Setup) (err error) {
	p.dir = s.DataDir
	if p.config, err = readConfig(s.Config); err != nil {
		return &plugin.ToolError{Code: plugin.CategoryConfig, Message: err.Error()}
	}
	return nil
}

// verify asks for the repository: it has to be there, and to take issues.
func (p *reporter) verify(ctx context.Context, s plugin.Setup) error {
	ctx, cancel := context.WithTimeout(ctx, verifyTime)
	defer cancel()
	f, err := p.forge(ctx, s.Credential)
	if err == nil {
		err = f.check(ctx)
	}
	var known *plugin.ToolError
	if !errors.As(err, &known) {
		return err
	}
	switch known.Code {
	case plugin.CategoryAuth, plugin.CategoryConfig, plugin.CategoryNetwork:
		return err
	case codeServer, codeRate:
		return &plugin.ToolError{Code: plugin.CategoryNetwork, Message: known.Message, Retriable: true}
	}
	return &plugin.ToolError{Code: plugin.CategoryConfig, Message: known.Message}
}

// forge talks to the server with the token as it is now.
func (p *reporter) forge(ctx context.Context, read func(context.Context, string) (nacre.Secret, error)) (*forge, error) {
	if p.config.Repository == "" {
		return nil, &plugin.ToolError{Code: plugin.CategoryConfig,
			Message: "Nobody said where reports go: the operator sets repository in [plugins.bug_report]"}
	}
	token, err := read(ctx, "token")
	if err != nil || token.Reveal() == "" {
		return nil, &plugin.ToolError{Code: plugin.CategoryAuth, Message: "The token is not set: the operator names it in [access.bug_report.credentials]"}
	}
	return newForge(p.config, token), nil
}

type arguments struct {
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Severity    string   `json:"severity"`
	Correlation []string `json:"correlation_ids"`
	Labels      []string `json:"labels"`
}

// filed is what the agent gets.
type filed struct {
	Number int64  `json:"number"`
	URL    string `json:"url"`
	// Already says that the report was there before.
	Already bool `json:"already_filed,omitempty"`
}

func (p *reporter) create(ctx context.Context, r *plugin.Request, args arguments) (any, error) {
	f, err := p.forge(ctx, r.Credential)
	if err != nil {
		return nil, err
	}
	slices.Sort(args.Correlation)
	args.Correlation = slices.Compact(args.Correlation)
	found, err := gather(ctx, r, args.Correlation)
	if err != nil {
		return nil, err
	}
	made := newReport(args, found, f.token)
	made.labels = slices.Compact(append(slices.Clone(p.config.Labels), made.labels...))
	once, unlock, err := openOnce(ctx, p.dir, made.marker, p.now)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return f.fileOnce(ctx, made, once)
}
