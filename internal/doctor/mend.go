package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/operator"
)

const (
	// asideChain is the chain that says what became of an audit that did not hold.
	asideChain = "aside-"
	// KindAside is the record of it.
	KindAside nacre.Kind = "audit.aside"
	// maxSaid is how much of what a failed program said is told, in bytes.
	maxSaid = 500
)

// installed offers to install the program of a brain, where its help is a command of npm's.
func installed(f installation.Finding) installation.Finding {
	words := strings.Fields(f.Fix)
	if len(words) == 0 || words[0] != "npm" {
		return f
	}
	return offering(f, "it uses the network", words...)
}

// synchronised offers to let the system set its clock, where systemd keeps it.
func synchronised(f installation.Finding) installation.Finding {
	return offering(f, "the network's time is taken within a minute or so", "timedatectl", "set-ntp", "true")
}

// offering has the finding run a program of this machine's, where there is that program. A person
// chooses it: the program changes more than nacre's own state.
func offering(f installation.Finding, what string, command ...string) installation.Finding {
	program, err := installation.LookPath(command[0])
	if err != nil {
		return f
	}
	f.Choice, f.Offer = true, "run "+strings.Join(command, " ")+" ("+what+")"
	f.Repair = func(ctx context.Context, _ func(string)) error {
		c := exec.CommandContext(ctx, program, command[1:]...)
		c.Dir = "/" // the settings of a project say nothing about what is installed
		out, err := c.CombinedOutput()
		if err != nil {
			said := strings.TrimSpace(string(out))
			return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, said[max(0, len(said)-maxSaid):])
		}
		return nil
	}
	return f
}

// setAside offers to keep an audit that does not hold as it is, for whoever looks into it, and to begin
// another. A person chooses it: until then each verification says that the audit was changed.
func setAside(inst *installation.Installation, f installation.Finding, why error) installation.Finding {
	if !errors.Is(why, audit.ErrTampered) {
		return f
	}
	root := inst.AuditRoot()
	aside := root + ".aside-" + inst.Options.Now().UTC().Format("20060102T150405")
	f.Choice, f.Offer = true, "keep the audit that does not hold as "+filepath.Base(aside)+", and begin a new one (look into it first: nacre audit verify)"
	f.Repair = func(ctx context.Context, tell func(string)) error {
		sessions, err := inst.Registry.List()
		if err != nil {
			return err
		}
		for _, s := range sessions {
			if s.Live() {
				return fmt.Errorf("session %s is at work and writes to the audit: end it first, with nacre sessions stop %s", s.ID, s.ID)
			}
		}
		if err := os.Rename(root, aside); err != nil {
			return err
		}
		tell("the audit that did not hold is kept in " + aside)
		return recordAside(ctx, inst, filepath.Base(aside), why)
	}
	return f
}

// recordAside begins the new audit with what became of the one before.
func recordAside(ctx context.Context, inst *installation.Installation, aside string, why error) (err error) {
	detail, err := json.Marshal(map[string]string{"kept_as": aside})
	if err != nil {
		return err
	}
	chain, closed, err := operator.Chain(ctx, inst, asideChain)
	if err != nil {
		return err
	}
	err = chain.Commit(ctx, nacre.Record{
		Time: inst.Options.Now(), Kind: KindAside, Source: "operator", Outcome: "set aside", Reason: firstLine(why), Detail: detail,
	})
	return errors.Join(err, closed())
}

// firstLine is the first thing that does not hold; a reason in a record is short.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line[:min(len(line), maxSaid)]
}
