package sshagent

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/crypto/ssh"
)

// bindExtension is how OpenSSH says which host a connection leads to (PROTOCOL.agent, 1).
const bindExtension = "session-bind@openssh.com"

// errNotBinding says that a message is another extension.
var errNotBinding = errors.New("the extension is not known")

// binding is a connection of SSH, as its host signed it.
type binding struct {
	host    ssh.PublicKey
	session []byte
	raw     []byte
	failed  error // why nothing is signed on this connection
}

// readBinding accepts what a host with its own key has signed, and a client that is not
// itself reached over an agent that was forwarded.
func readBinding(message []byte) (*binding, error) {
	var extension struct {
		Name string `sshtype:"27"`
		Body []byte `ssh:"rest"`
	}
	if err := ssh.Unmarshal(message, &extension); err != nil || extension.Name != bindExtension {
		return nil, errNotBinding
	}
	var body struct {
		Host, Session, Signature []byte
		Forwarded                bool
	}
	if err := ssh.Unmarshal(extension.Body, &body); err != nil {
		return nil, errors.New("its session-bind message cannot be read")
	}
	host, err := ssh.ParsePublicKey(body.Host)
	if err != nil {
		return nil, errors.New("the key of the host cannot be read")
	}
	var signature ssh.Signature
	if err := ssh.Unmarshal(body.Signature, &signature); err != nil {
		return nil, errors.New("the host's signature cannot be read")
	}
	switch {
	case body.Forwarded:
		return nil, errors.New("the agent was forwarded to another host")
	case len(body.Session) == 0 || !fits(signature.Format, host.Type()) || host.Verify(body.Session, &signature) != nil:
		return nil, errors.New("the host did not sign the connection")
	}
	return &binding{host: host, session: body.Session, raw: extension.Body}, nil
}

// request is what a client signs to log in (RFC 4252, 7).
type request struct {
	Session               []byte
	Message               [1]byte
	User, Service, Method string
	Signed                bool
	Algorithm             string
	Key                   []byte
	Rest                  []byte `ssh:"rest"`
}

const (
	messageUserauth = 50
	methodKey       = "publickey"
	// methodBound names the host's key as well (OpenSSH 8.9).
	methodBound = "publickey-hostbound-v00@openssh.com"
)

// login reads what is to be signed, and accepts the one login that the key is good for.
func (c *client) login(k Key, data []byte) (Login, error) {
	switch {
	case c.bound == nil:
		return Login{}, errors.New("the client did not say which host it is connected to: OpenSSH does since 8.9")
	case c.bound.failed != nil:
		return Login{}, c.bound.failed
	}
	var r request
	if err := ssh.Unmarshal(data, &r); err != nil || !bytes.Equal(ssh.Marshal(r), data) || r.Message[0] != messageUserauth || !r.Signed || r.Service != "ssh-connection" {
		return Login{}, errors.New("what is to be signed is not a login: nothing else is signed")
	}
	switch {
	case !bytes.Equal(r.Session, c.bound.session):
		return Login{}, errors.New("the login is for another connection than the host signed")
	case !k.isFor(c.bound.host):
		return Login{}, fmt.Errorf("the host's key %s is not in host_keys", ssh.FingerprintSHA256(c.bound.host))
	case r.User != k.User:
		return Login{}, fmt.Errorf("it logs in as %.80q, and the key is for %q", r.User, k.User)
	case !bytes.Equal(r.Key, k.Public.Marshal()) || !fits(r.Algorithm, k.Public.Type()):
		return Login{}, errors.New("the login names another key, or an algorithm that is not used for it")
	case !r.names(c.bound.host):
		return Login{}, errors.New("the login names another host's key")
	}
	return Login{Host: c.bound.host, Data: data, Algorithm: r.Algorithm, Bind: c.bound.raw}, nil
}

// names reports whether the request is for a host, as far as its method says.
func (r request) names(host ssh.PublicKey) bool {
	switch r.Method {
	case methodKey:
		return len(r.Rest) == 0
	case methodBound:
		return bytes.Equal(r.Rest, ssh.Marshal(struct{ Host []byte }{host.Marshal()}))
	}
	return false
}

// fits reports whether an algorithm signs with keys of a type. SHA-1 does not.
func fits(algorithm, kind string) bool {
	if kind == ssh.KeyAlgoRSA {
		return algorithm == ssh.KeyAlgoRSASHA256 || algorithm == ssh.KeyAlgoRSASHA512
	}
	return algorithm == kind
}
