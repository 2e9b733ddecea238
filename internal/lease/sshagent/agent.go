// Package sshagent promises that a key of SSH logs in where its operator says, and is good for nothing
// else (M-36). It speaks the protocol of ssh-agent with programs that nobody trusts. It shows public keys,
// and signs one thing alone, the login of one user at a host whose key is listed. Which host that is comes
// from session-bind@openssh.com, with which the host itself signed the connection. OpenSSH has it since
// 8.9, and who does not send it gets no signature. What was forwarded, other things to sign (a commit, a
// file), new keys and everything else of the protocol are refused.
//
// What a login is then used for is between the client and the host: nobody here sees it.
package sshagent

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

const (
	// maxMessage is the longest message that is read, in bytes: a login is well below it.
	maxMessage = 32 << 10
	// maxClients are the connections that are answered at once; more are closed.
	maxClients = 32
)

// Key is one key, and the only login that it is good for. The zero value is good for none.
type Key struct {
	// Comment is what a client shows beside the key.
	Comment string
	Public  ssh.PublicKey
	// User is who may be logged in as, at a host that has one of the keys Hosts.
	User  string
	Hosts []ssh.PublicKey
	// Sign asks whoever has to allow it, and signs. An error refuses the login.
	Sign func(ctx context.Context, login Login) (*ssh.Signature, error)
}

// Login is one that was checked: it is what its key is good for.
type Login struct {
	// Host is the key that the host proved to have.
	Host ssh.PublicKey
	// Data is what is signed, with Algorithm.
	Data      []byte
	Algorithm string
	// Bind is the body of the session-bind message, for another agent behind this one.
	Bind []byte
}

// Agent is what one session has of keys.
type Agent struct {
	// Keys gives the keys that there are now.
	Keys func(ctx context.Context) []Key
	// Refused is told why something was not signed.
	Refused func(ctx context.Context, key string, why error)
}

// Serve answers until ctx ends, and then waits for who is being answered.
func (a Agent) Serve(ctx context.Context, l net.Listener) error {
	ctx, end := context.WithCancel(ctx)
	var clients sync.WaitGroup
	defer clients.Wait()
	defer end()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() }) // accept then fails, which ends the loop
	defer stop()
	places := make(chan struct{}, maxClients)
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case places <- struct{}{}:
			clients.Go(func() { defer func() { <-places }(); a.answer(ctx, conn) })
		default:
			_ = conn.Close()
		}
	}
}

// answer carries one connection. A message that cannot be read ends it.
func (a Agent) answer(ctx context.Context, conn net.Conn) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() { stop(); _ = conn.Close() }()
	c := client{agent: a}
	for {
		message, err := read(conn)
		if err != nil {
			return
		}
		if err := write(conn, c.reply(ctx, message)); err != nil {
			return
		}
	}
}

// The messages of the protocol that are known here (draft-ietf-sshm-ssh-agent).
const (
	messageFailure   = 5
	messageSuccess   = 6
	requestKeys      = 11
	answerKeys       = 12
	requestSignature = 13
	answerSignature  = 14
	requestExtension = 27
)

// client is one connection, and the host that it was bound to.
type client struct {
	agent Agent
	bound *binding
}

// reply is the answer to a message; what is not known here is refused.
func (c *client) reply(ctx context.Context, message []byte) []byte {
	switch message[0] {
	case requestKeys:
		return c.list(ctx)
	case requestSignature:
		return c.sign(ctx, message)
	case requestExtension:
		return c.bind(ctx, message)
	}
	return []byte{messageFailure}
}

// list shows the keys: once the connection is bound, those for its host alone.
func (c *client) list(ctx context.Context) []byte {
	answer := struct {
		Count uint32 `sshtype:"12"`
		Rest  []byte `ssh:"rest"`
	}{}
	for _, k := range c.agent.Keys(ctx) {
		if c.bound != nil && !k.isFor(c.bound.host) {
			continue
		}
		answer.Count++
		answer.Rest = append(answer.Rest, ssh.Marshal(struct {
			Key     []byte
			Comment string
		}{k.Public.Marshal(), k.Comment})...)
	}
	return ssh.Marshal(answer)
}

func (k Key) isFor(host ssh.PublicKey) bool {
	return slices.ContainsFunc(k.Hosts, func(listed ssh.PublicKey) bool { return same(listed, host) })
}

func same(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }

// bind remembers the host that a client is connected to.
func (c *client) bind(ctx context.Context, message []byte) []byte {
	bound, err := readBinding(message)
	if err == nil && c.bound != nil {
		err = errors.New("the connection was bound to a host before")
	}
	if errors.Is(err, errNotBinding) {
		return []byte{messageFailure} // another extension, which a client does without
	}
	if err != nil {
		c.agent.Refused(ctx, "", err)
		c.bound = &binding{failed: err}
		return []byte{messageFailure}
	}
	c.bound = bound
	return []byte{messageSuccess}
}

// sign signs the login that the connection was bound for.
func (c *client) sign(ctx context.Context, message []byte) []byte {
	name, signature, err := c.signed(ctx, message)
	if err != nil {
		c.agent.Refused(ctx, name, err)
		return []byte{messageFailure}
	}
	return ssh.Marshal(struct {
		Signature []byte `sshtype:"14"`
	}{ssh.Marshal(signature)})
}

func (c *client) signed(ctx context.Context, message []byte) (name string, s *ssh.Signature, err error) {
	var request struct {
		Key   []byte `sshtype:"13"`
		Data  []byte
		Flags uint32
	}
	if err := ssh.Unmarshal(message, &request); err != nil {
		return "", nil, errors.New("the request cannot be read")
	}
	why := errors.New("it asks for a key that the session does not have")
	for _, k := range c.agent.Keys(ctx) { // one key may be for several logins
		if !bytes.Equal(k.Public.Marshal(), request.Key) {
			continue
		}
		var login Login
		login, why = c.login(k, request.Data)
		if name = k.Comment; why != nil {
			continue
		}
		if request.Flags != flagsOf(login.Algorithm) {
			return name, nil, fmt.Errorf("it asks for another algorithm than its login names, %q", login.Algorithm)
		}
		s, err = k.Sign(ctx, login)
		return name, s, err
	}
	return name, nil, why
}

// flagsOf are those with which an agent is asked for an algorithm.
func flagsOf(algorithm string) uint32 {
	switch algorithm {
	case ssh.KeyAlgoRSASHA256:
		return uint32(agent.SignatureFlagRsaSha256)
	case ssh.KeyAlgoRSASHA512:
		return uint32(agent.SignatureFlagRsaSha512)
	}
	return 0
}

// read reads one message, which is never empty.
func read(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(length[:])
	if size == 0 || size > maxMessage {
		return nil, fmt.Errorf("a message of %d bytes", size)
	}
	message := make([]byte, size)
	_, err := io.ReadFull(r, message)
	return message, err
}

func write(w io.Writer, message []byte) error {
	framed := binary.BigEndian.AppendUint32(nil, uint32(len(message))) //nolint:gosec // an answer is short
	_, err := w.Write(append(framed, message...))
	return err
}
