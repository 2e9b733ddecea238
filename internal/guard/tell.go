package guard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/nacre-dev/nacre/internal/atom"
)

// Refusal is a call that the gates refused, or would have.
type Refusal struct {
	Tool   string `json:"tool"`
	Reason string `json:"reason"` // as the agent is told it, with [Prefix] where it was refused
	// Allowed is set where the call happens all the same: the gates only warn, or advise.
	Allowed atom.Severity `json:"allowed,omitzero"`
}

// Tell tells the host what the gates have against a call that happens (F-99).
func (v Verdict) Tell(ctx context.Context, socket, tool string) {
	for _, r := range v.Remarks(tool) {
		Tell(ctx, socket, r)
	}
}

// Remarks are what the gates have against a call that happens.
func (v Verdict) Remarks(tool string) (all []Refusal) {
	if v.Warnings != "" {
		all = append(all, Refusal{tool, v.Warnings, atom.Warn})
	}
	if v.Notes != "" {
		all = append(all, Refusal{tool, v.Notes, atom.Advisory})
	}
	return all
}

const (
	// MaxRefusal is the longest refusal that the host reads, in bytes.
	MaxRefusal = 64 << 10
	// maxReason is how much of a reason the host is told, in bytes.
	maxReason = 8 << 10
	// heard is what the host answers when the agent may be told.
	heard = "heard\n"
)

// Tell tells the host of a refusal, and returns when the agent may be told: the host
// may ask a person first, and have the agent stopped meanwhile. Where nobody listens
// on the socket, or it fails, the call is refused all the same.
func Tell(ctx context.Context, socket string, r Refusal) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	r.Reason = strings.ToValidUTF8(r.Reason[:min(len(r.Reason), maxReason)], "")
	if json.NewEncoder(conn).Encode(r) == nil {
		_, _ = io.ReadAll(io.LimitReader(conn, int64(len(heard))))
	}
}

// Hear reads one refusal from a connection, tells it, and then lets the agent be told.
func Hear(conn io.ReadWriter, told func(Refusal)) error {
	line, err := bufio.NewReader(io.LimitReader(conn, MaxRefusal)).ReadBytes('\n')
	if err != nil {
		return err
	}
	var r Refusal
	if err := json.Unmarshal(line, &r); err != nil {
		return err
	}
	if r.Reason == "" {
		return errors.New("a refusal without a reason")
	}
	told(r)
	_, err = io.WriteString(conn, heard)
	return err
}
