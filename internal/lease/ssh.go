package lease

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/nacre-dev/nacre/internal/lease/sshagent"
)

// SchemeSSH is the scheme of a credential that is a key of SSH.
const SchemeSSH = "ssh"

// maxHostKeys is how many keys one host has: it has one of each type.
const maxHostKeys = 8

// SSH is what a key of SSH is good for, beside its host and its user. The zero value is
// good for nothing.
type SSH struct {
	// HostKeys are the public keys of the host, each as known_hosts has it after the name.
	HostKeys []string `toml:"host_keys"`
	// Confirm is when a person is asked: at the first login of a session, at each one, or
	// never. Empty means at the first one.
	Confirm string `toml:"confirm"`
}

// When a person is asked for a login.
const (
	ConfirmFirst = "first"
	ConfirmEach  = "each"
	ConfirmNever = "never"
)

// NamesLogin reports whether anything of it was written.
func (s SSH) NamesLogin() bool { return len(s.HostKeys) > 0 || s.Confirm != "" }

// CheckLogin refuses a key that would be good for more than one user of the hosts that are
// listed. others are further keys of the credential, which are of other schemes.
func (s SSH) CheckLogin(user string, others ...bool) error {
	for _, there := range others {
		if there {
			return errors.New("scheme ssh takes host, user, host_keys, confirm, groups, expires and one place of the private key")
		}
	}
	switch {
	case user == "" || len(user) > maxName || strings.ContainsFunc(user, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("user is who the key logs in as, such as \"git\"")
	case len(s.HostKeys) == 0 || len(s.HostKeys) > maxHostKeys:
		return fmt.Errorf("host_keys names 1 to %d public keys of the host: ssh-keyscan HOST prints them, and its owner says whether they are the right ones", maxHostKeys)
	case s.Confirm != "" && s.Confirm != ConfirmFirst && s.Confirm != ConfirmEach && s.Confirm != ConfirmNever:
		return errors.New("confirm is first, each or never")
	}
	for _, line := range s.HostKeys {
		if _, err := sshagent.ParseHostKey(line); err != nil {
			return fmt.Errorf("host_keys: %w", err)
		}
	}
	return nil
}

// Hosts are the public keys of the host, which were checked.
func (s SSH) Hosts() (keys []ssh.PublicKey) {
	for _, line := range s.HostKeys {
		if key, err := sshagent.ParseHostKey(line); err == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// AddressSSH is a host as a rule of the egress proxy has it: SSH is on port 22, and no TLS.
func AddressSSH(host string) string {
	if !strings.Contains(host, ":") {
		host += ":22"
	}
	return host + "/tcp"
}

// Signer is the private key that the source names. An error says nothing of it.
func (s Source) Signer(ctx context.Context, getenv func(string) string) (sshagent.Signer, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if s.Store() == StoreAgent {
		return sshagent.Held(ctx, getenv("SSH_AUTH_SOCK"), s.Agent)
	}
	text, err := s.ReadRoot(ctx, getenv)
	if err != nil {
		return nil, err
	}
	key, err := sshagent.ParsePrivate(text.Reveal())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	return key, nil
}
