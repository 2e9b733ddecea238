package workcmd

import (
	"context"
	"fmt"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/terminal"
)

const landHelp = "what becomes of commits: branch keeps them on nacre/SESSION, ff moves your branch forward to them, ask shows them and asks for ff"

// What --land takes.
const (
	landBranch  = "branch"
	landForward = "ff"
	landAsk     = "ask"
)

// landing is what --land says.
func (cmd execCommand) landing(how string) (assembly.Landing, error) {
	switch how {
	case landBranch, landForward:
		return assembly.Landing{Forward: how == landForward}, nil
	case landAsk:
		if cmd.JSON || !terminal.Is(cmd.Stdin) || !terminal.Is(cmd.Stdout) {
			return assembly.Landing{}, command.Usage("--land ask asks on your terminal at the end, and there is none: write branch or ff")
		}
		return assembly.Landing{Ask: cmd.askToLand}, nil
	}
	return assembly.Landing{}, command.Usage("--land is branch, ff or ask, not %q", how)
}

// maxOfferShown is how many files of an offer are named besides those that programs of
// the host obey, all of which are.
const maxOfferShown = 20

// askToLand shows what would land on the user's branch, and asks. What was typed before
// the question was for the program that is gone, and answers nothing.
func (cmd execCommand) askToLand(ctx context.Context, o assembly.Offer) (by string) {
	if err := forget(int(cmd.Stdin.Fd())); err != nil {
		return ""
	}
	printOffer(cmd.Printer(cmd.Stdout), o)
	if yes, err := cmd.Agrees(ctx, cmd.Stdout, "         move your branch there? [y/N] "); err != nil || !yes {
		return ""
	}
	return command.Operator()
}

func printOffer(p *terminal.Printer, o assembly.Offer) {
	commits := "commits"
	if o.Commits == 1 {
		commits = "commit"
	}
	p.Field("git", "%d %s for %s: %d files, +%d −%d", o.Commits, commits, o.Branch, len(o.Changes), o.Added, o.Removed)
	shown, more := 0, 0
	for _, c := range o.Changes {
		switch {
		case c.Held:
			p.Mark("warn", "look", fmt.Sprintf("%s %q: %s", c.Kind, c.Path, c.Warning))
		case shown < maxOfferShown:
			shown++
			p.Line("         %-8s %q", c.Kind, c.Path)
		default:
			more++
		}
	}
	if more > 0 {
		p.Line("         and %d files more", more)
	}
}

// toLand is who is asked whether commits land.
type toLand func(ctx context.Context, o assembly.Offer) (by string)

// behind asks once the program's terminal is given back; where it cannot be, it is a no.
func behind(ask toLand, end func() error) toLand {
	if ask == nil {
		return nil
	}
	return func(ctx context.Context, o assembly.Offer) string {
		if end() != nil {
			return ""
		}
		return ask(ctx, o)
	}
}
