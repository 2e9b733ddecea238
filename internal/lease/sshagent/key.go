package sshagent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// ParseHostKey reads a host's public key as a line of known_hosts has it after the
// host's name: "ssh-ed25519 AAAA…".
func ParseHostKey(line string) (ssh.PublicKey, error) {
	key, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil || len(options)+len(rest) > 0 {
		return nil, errors.New("a host's key is written as known_hosts has it after the host's name, such as \"ssh-ed25519 AAAA…\". ssh-keyscan HOST prints it, and its owner says whether it is the right one")
	}
	if _, certificate := key.(*ssh.Certificate); certificate {
		return nil, errors.New("a host's key is wanted, not a certificate")
	}
	return key, nil
}

// Signer is a private key, wherever it is.
type Signer interface {
	Public() ssh.PublicKey
	// Sign signs a login that was checked.
	Sign(ctx context.Context, login Login) (*ssh.Signature, error)
}

// ParsePrivate reads a private key in one of the forms of OpenSSH. No error holds
// anything of it.
func ParsePrivate(text string) (Signer, error) {
	s, err := ssh.ParsePrivateKey([]byte(text + "\n"))
	var locked *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked):
		return nil, errors.New("the key has a passphrase, which nobody is asked for: add the key to your ssh-agent, and name it there with value_agent")
	case err != nil:
		return nil, errors.New("it is not a private key in the form of OpenSSH")
	}
	with, ok := s.(ssh.AlgorithmSigner)
	if !ok {
		return nil, errors.New("keys of this type are not known")
	}
	return private{with}, nil
}

// private is a key that was read.
type private struct{ signer ssh.AlgorithmSigner }

// Public implements Signer.
func (p private) Public() ssh.PublicKey { return p.signer.PublicKey() }

// Sign implements Signer.
func (p private) Sign(_ context.Context, login Login) (*ssh.Signature, error) {
	return p.signer.SignWithAlgorithm(rand.Reader, login.Data, login.Algorithm)
}

// agentLimit bounds the wait for the operator's own agent, which may ask its person.
const agentLimit = 2 * time.Minute

// Held finds a key of the operator's own agent by its fingerprint. Only that key is used,
// and the agent is reached for each login anew.
func Held(ctx context.Context, socket, fingerprint string) (Signer, error) {
	h := held{socket: socket}
	if socket == "" {
		return nil, errors.New("SSH_AUTH_SOCK is not set: begin an ssh-agent, and add the key to it with ssh-add")
	}
	err := h.with(ctx, func(a agent.ExtendedAgent) error {
		keys, err := a.List()
		if err != nil {
			return errors.New("your ssh-agent does not list its keys")
		}
		for _, k := range keys {
			if public, err := ssh.ParsePublicKey(k.Blob); err == nil && ssh.FingerprintSHA256(public) == fingerprint {
				h.public = public
				return nil
			}
		}
		return fmt.Errorf("your ssh-agent has no key %s: ssh-add -l shows those that it has", fingerprint)
	})
	return h, err
}

// held is a key of another agent.
type held struct {
	socket string
	public ssh.PublicKey
}

// Public implements Signer.
func (h held) Public() ssh.PublicKey { return h.public }

// Sign binds the agent to the same host first: a key that it holds for certain hosts
// alone is then used for those alone.
func (h held) Sign(ctx context.Context, login Login) (s *ssh.Signature, err error) {
	err = h.with(ctx, func(a agent.ExtendedAgent) error {
		if _, err := a.Extension(bindExtension, login.Bind); err != nil && !errors.Is(err, agent.ErrExtensionUnsupported) {
			return errors.New("your ssh-agent does not let the key be used for this host")
		}
		s, err = a.SignWithFlags(h.public, login.Data, agent.SignatureFlags(flagsOf(login.Algorithm)))
		if err != nil {
			return errors.New("your ssh-agent refused to sign")
		}
		if err := h.public.Verify(login.Data, s); err != nil {
			return errors.New("your ssh-agent gave a signature that is not the key's")
		}
		return nil
	})
	return s, err
}

// with calls do with a connection to the agent.
func (h held) with(ctx context.Context, do func(agent.ExtendedAgent) error) error {
	ctx, cancel := context.WithTimeout(ctx, agentLimit)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", h.socket)
	if err != nil {
		return errors.New("your ssh-agent, which SSH_AUTH_SOCK names, does not answer")
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	return do(agent.NewClient(conn))
}
