// Package graduation lets powers of runs grow from evidence, and shrink at once (M-51). A power is what
// a run may reach beyond the config, under a name that people use: the installation of packages, writes
// to a DNS. It is locked at first. Where enough verified work has used it, a person is asked whether
// runs may have it for a time. One failure takes it back.
//
// It promises that nothing is unlocked but by a person, and that unlocking changes what a run may reach
// and nothing else. What speaks for a power are records of the audit chain, which are looked up each
// time.
package graduation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/posture"
)

const (
	// fileName lies beside config.toml, and the operator writes it.
	fileName = "powers.toml"
	// maxPowers is how many powers there are at most, and maxName how long a name is, in bytes.
	maxPowers = 32
	maxName   = lease.MaxPower
)

// Power is what runs may reach where it is unlocked.
type Power struct {
	Name string `toml:"name" json:"name"`
	// Hosts are as in [egress] allow: hosts and bundles, and no wildcards.
	Hosts []string `toml:"hosts" json:"hosts"`
	// Credentials are those of the config that are locked without it.
	Credentials []string `toml:"-" json:"credentials,omitempty"`

	rules []nacre.EgressRule
	only  []egress.Credential
}

// shipped is the power that is there without a file: its hosts are known.
func shipped() []Power {
	return []Power{{Name: "package-installation", Hosts: []string{"bundle:go", "bundle:npm", "bundle:pip", "bundle:cargo"}}}
}

// Hosts are those of powers that a person gives one run by their names.
func Hosts(inst *installation.Installation, names []string) (hosts []string, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	powers, err := Load(inst)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		at := slices.IndexFunc(powers, func(p Power) bool { return p.Name == name })
		if at < 0 {
			return nil, config.Errorf("there is no power %.60q: nacre power list names those there are", name)
		}
		hosts = append(hosts, powers[at].Hosts...)
	}
	return hosts, nil
}

// Load reads the operator's powers, or those that ship where there is no file, and adds those that only
// credentials of the config name. A file that cannot be read whole is refused.
func Load(inst *installation.Installation) ([]Power, error) {
	path := filepath.Join(inst.Registry.Paths().Config, fileName)
	file := struct {
		Powers []Power `toml:"power"`
	}{shipped()}
	data, err := os.ReadFile(path)
	switch {
	case err == nil:
		file.Powers = nil
		err = atom.DecodeOwn(data, &file)
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	powers := file.Powers
	for _, c := range inst.Config.Credentials {
		powers = guarding(powers, c)
	}
	if err == nil {
		err = check(powers)
	}
	if err != nil {
		return nil, config.Errorf("%s: %w", path, err)
	}
	return powers, nil
}

// guarding adds a credential to the power that it is locked without.
func guarding(powers []Power, c config.Credential) []Power {
	name := c.Locked()
	if name == "" {
		return powers
	}
	at := slices.IndexFunc(powers, func(p Power) bool { return p.Name == name })
	if at < 0 {
		at, powers = len(powers), append(powers, Power{Name: name, Hosts: []string{}})
	}
	powers[at].Credentials = append(powers[at].Credentials, c.Name)
	return powers
}

func check(powers []Power) error {
	if len(powers) > maxPowers {
		return fmt.Errorf("at most %d powers", maxPowers)
	}
	for i := range powers {
		p := &powers[i]
		switch {
		case !isName(p.Name):
			return fmt.Errorf("power %.60q: a name is of small letters, digits and hyphens, at most %d", p.Name, maxName)
		case slices.ContainsFunc(powers[:i], func(o Power) bool { return o.Name == p.Name }):
			return fmt.Errorf("power %s stands twice", p.Name)
		case len(p.Hosts)+len(p.Credentials) == 0:
			return fmt.Errorf("power %s: name its hosts here, or credentials of it in config.toml", p.Name)
		}
		if err := p.resolve(); err != nil {
			return fmt.Errorf("power %s: %w", p.Name, err)
		}
	}
	return nil
}

func isName(s string) bool {
	return s != "" && len(s) <= maxName && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && s[0] != '-'
}

// resolve finds the hosts of bundles, and what may be asked of them.
func (p *Power) resolve() (err error) {
	var reach config.Egress // without the operator's own: a power's hosts are plain ones
	if p.rules, err = reach.Rules(p.Hosts); err != nil {
		return err
	}
	if p.only, err = reach.Opened(p.Hosts); err != nil {
		return err
	}
	for _, rule := range p.rules {
		if strings.Contains(rule.Host, "*") || posture.Inside(rule.Host) || rule.Protocol != nacre.ProtocolTLS {
			return fmt.Errorf("host %s: a power is of plain hosts outside, by TLS", rule)
		}
	}
	return nil
}

// reached is where a connection or a request went, and with which credential.
type reached struct {
	Host       string
	Port       uint16
	Credential string
}

// uses tells whether what went there is the power's: by its credential, or by its host.
func (p *Power) uses(to reached) bool {
	return slices.Contains(p.Credentials, to.Credential) || slices.ContainsFunc(p.rules, func(r nacre.EgressRule) bool { return r.Host == to.Host && r.Port == to.Port })
}
