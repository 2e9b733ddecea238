package egress

import (
	"slices"

	"github.com/nacre-dev/nacre"
)

// Learned is what a person approved with nacre learn (U-40). Hosts stand by their names alone, as
// in [egress] allow. Requests are those of hosts that are asked nothing else, and uses are those of
// credentials.
type Learned struct {
	Names    []string
	Requests []Credential
	Uses     []Use
	Powers   []string // that were unlocked
}

// Hosts are all of them, as in [egress] allow.
func (l Learned) Hosts() []string {
	texts := slices.Clone(l.Names)
	for _, request := range l.Requests {
		texts = append(texts, request.Rule().String())
	}
	return texts
}

// Use is what a group's sessions may use a credential for beside what the config says (U-40).
type Use struct {
	Group            nacre.Group
	Credential, Host string // HOST:PORT; one that was given another since is not used for it
	Methods, Paths   []string
}

// Further are a group's uses of a credential, which is as the config has it: none for one that
// is for another host by now, or for git.
func (c Credential) Further(group nacre.Group, uses []Use) (list []Credential) {
	for _, u := range uses {
		if u.Group == group && u.Credential == c.Name && u.Host == c.Rule().String() && c.Git.IsZero() {
			more := c
			more.Methods, more.Paths, more.Whole = u.Methods, u.Paths, nil
			list = append(list, more)
		}
	}
	return list
}
