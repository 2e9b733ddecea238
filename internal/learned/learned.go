// Package learned is what a person approved with nacre learn, as it is kept beside
// config.toml. It is data: what sessions may reach by it is the config's.
package learned

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/posture"
)

const (
	// fileName lies beside config.toml, and nacre learn alone writes it.
	fileName = "learned.toml"
	// maxApprovals is how many approvals are kept, and maxHosts how many lines each has.
	maxApprovals = 100
	maxHosts     = 256
	// maxArguments is how many arguments of one tool are told apart.
	maxArguments = 256
	// MaxTime is the longest that an approval may stand.
	MaxTime = 366 * 24 * time.Hour
)

const head = "# What sessions may reach because a person approved it with `nacre learn`.\n" +
	"# nacre writes this file: nacre learn --undo takes an approval back.\n\n"

// Approval is a proposal that a person approved (U-40).
type Approval struct {
	ID string    `toml:"id" json:"id"`
	By string    `toml:"by" json:"by"`
	At time.Time `toml:"at" json:"at"`
	// Until is when it ends. A session that began before that keeps hosts and tools to its own end, and
	// loses uses of credentials, and folders.
	Until time.Time `toml:"until" json:"until"`
	// Sessions are whose refusals it was made of, and Evidence is the SHA-256 of their
	// records, in hexadecimal.
	Sessions []string `toml:"sessions" json:"sessions"`
	Evidence string   `toml:"evidence" json:"evidence"`
	Hosts    []Host   `toml:"host,omitempty" json:"hosts"`
	Tools    []Tool   `toml:"tool,omitempty" json:"tools,omitempty"`
	Uses     []Use    `toml:"use,omitempty" json:"uses,omitempty"`
	Folders  []Folder `toml:"folder,omitempty" json:"folders,omitempty"`
	// Power is what it unlocks, where it was proposed from evidence (M-51): runs alone have
	// it, and none that has listened to an outsider. Empty for what nacre learn approved.
	Power string `toml:"power,omitempty" json:"power,omitempty"`
}

// Host is what may be reached. Without methods and paths it is a host of TLS that is reached by its
// name alone. With both, nothing else is asked of it.
type Host struct {
	Host    string   `toml:"host" json:"host"`
	Methods []string `toml:"methods,omitempty" json:"methods,omitempty"`
	Paths   []string `toml:"paths,omitempty" json:"paths,omitempty"`
}

// credential is what the host may be asked; asked is false where that is anything.
func (h Host) credential(id string) (c egress.Credential, asked bool, err error) {
	rule, err := posture.ParseEgress(h.Host)
	if err != nil {
		return egress.Credential{}, false, err
	}
	if len(h.Methods)+len(h.Paths) == 0 {
		if rule.Protocol != nacre.ProtocolTLS {
			return egress.Credential{}, false, fmt.Errorf("host %q: name its methods and paths", h.Host)
		}
		return egress.Credential{}, false, nil
	}
	c = egress.Credential{
		Name: "learned:" + id, Host: rule.Host, Port: rule.Port, Scheme: egress.SchemeNone,
		Methods: h.Methods, Paths: h.Paths, Plain: rule.Protocol == nacre.ProtocolHTTP,
	}
	if len(h.Methods) == 0 || rule.Protocol == nacre.ProtocolTCP {
		return egress.Credential{}, false, fmt.Errorf("host %q: methods and paths belong together, and are of TLS or HTTP", h.Host)
	}
	return c, true, c.Check()
}

// Lines is how many things it allows.
func (l Approval) Lines() int { return len(l.Hosts) + len(l.Tools) + len(l.Uses) + len(l.Folders) }

func (l Approval) check() error {
	switch {
	case l.ID == "" || l.By == "" || l.Evidence == "" || l.At.IsZero() || l.Until.IsZero():
		return errors.New("id, by, at, until and evidence are required")
	case l.Until.Sub(l.At) > MaxTime:
		return fmt.Errorf("%s stands for more than %d days", l.ID, int(MaxTime/(24*time.Hour)))
	case l.Lines() == 0 && l.Power == "" || l.Lines() > maxHosts:
		return fmt.Errorf("%s has nothing that was approved, or more than %d lines", l.ID, maxHosts)
	case l.Power != "" && l.Lines() > len(l.Hosts):
		return fmt.Errorf("%s: a power has no tools, no uses and no folders", l.ID)
	}
	for _, t := range l.Tools {
		if err := t.check(); err != nil {
			return fmt.Errorf("%s: %w", l.ID, err)
		}
	}
	for _, u := range l.Uses {
		if err := u.check(); err != nil {
			return fmt.Errorf("%s: %w", l.ID, err)
		}
	}
	for _, f := range l.Folders {
		if err := f.check(); err != nil {
			return fmt.Errorf("%s: %w", l.ID, err)
		}
	}
	for _, h := range l.Hosts {
		rule, err := posture.ParseEgress(h.Host)
		if err == nil && posture.Inside(rule.Host) {
			err = fmt.Errorf("host %q leads inside: it is never learned", h.Host)
		}
		if err == nil {
			_, _, err = h.credential(l.ID)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", l.ID, err)
		}
	}
	return nil
}

// Load reads what was approved; a file that cannot be read whole is refused.
func Load(dir string) (Approvals, error) {
	path := filepath.Join(dir, fileName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var file struct {
		Learned Approvals `toml:"learned"`
	}
	err = atom.DecodeOwn(data, &file)
	if err == nil && len(file.Learned) > maxApprovals {
		err = fmt.Errorf("more than %d approvals: nacre learn --undo takes one back", maxApprovals)
	}
	for _, l := range file.Learned {
		err = errors.Join(err, l.check())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return file.Learned, nil
}

// Change replaces what was approved by what change makes of it. Others wait
// meanwhile; nothing is written where change or the check of its result fails.
func Change(ctx context.Context, dir string, change func(Approvals) (Approvals, error)) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	lock, err := disk.TakeLock(ctx, filepath.Join(dir, "."+fileName+".lock"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	have, err := Load(dir)
	if err != nil {
		return err
	}
	next, err := change(slices.Clone(have))
	if err != nil {
		return err
	}
	for _, l := range next {
		if err := l.check(); err != nil {
			return err
		}
	}
	if len(next) > maxApprovals {
		return fmt.Errorf("%d approvals are kept at most: nacre learn --undo takes one back", maxApprovals)
	}
	text, err := toml.Marshal(struct {
		Learned Approvals `toml:"learned"`
	}{next})
	if err != nil {
		return err
	}
	return disk.Write(filepath.Join(dir, fileName), append([]byte(head), text...), 0o600)
}

// Approvals are all of a person's, the latest last.
type Approvals []Approval

// Plain are those that hold for every session, whatever it has listened to.
func (a Approvals) Plain() Approvals {
	return slices.DeleteFunc(slices.Clone(a), func(l Approval) bool { return l.Power != "" })
}

// standing are those that hold for what begins at a moment.
func (a Approvals) standing(now time.Time) Approvals {
	return slices.DeleteFunc(slices.Clone(a), func(l Approval) bool { return now.Before(l.At) || !now.Before(l.Until) })
}

// At is what may be reached at a moment.
func (a Approvals) At(now time.Time) (all egress.Learned, err error) {
	for _, l := range a.standing(now) {
		if l.Power != "" {
			all.Powers = append(all.Powers, l.Power)
		}
		for _, h := range l.Hosts {
			c, asked, err := h.credential(l.ID)
			switch {
			case err != nil:
				return egress.Learned{}, err
			case asked:
				all.Requests = append(all.Requests, c)
			case !slices.Contains(all.Names, h.Host):
				all.Names = append(all.Names, h.Host)
			}
		}
		for _, u := range l.Uses {
			all.Uses = append(all.Uses, egress.Use{Group: u.Group, Credential: u.Credential, Host: u.Host, Methods: u.Methods, Paths: u.Paths})
		}
	}
	return all, nil
}
