package children

import (
	"errors"
	"fmt"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/grant"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/token"
)

// purse holds an agent's tokens, one for each tool that it may hand down. Those of a child
// are derived from its parent's (K-11): without one of those there is none.
type purse struct {
	inst *installation.Installation
	// root is who the first tokens were minted for, and holder whose these are.
	root   nacre.Principal
	holder string
	tokens map[nacre.ToolName]nacre.Token
}

// minted are the tokens of an agent that a person started, for all that it may use and as long
// as it may work.
func minted(inst *installation.Installation, who nacre.Principal, tools []nacre.Capability, until time.Time) (purse, error) {
	p := purse{inst: inst, root: who, holder: who.ID, tokens: map[nacre.ToolName]nacre.Token{}}
	ring, err := p.ring()
	if err != nil {
		return purse{}, err
	}
	now := inst.Options.Now()
	for _, c := range tools {
		p.tokens[c.Tool], err = ring.Mint(nacre.Token{
			ID: installation.RandomHex(), Principal: who.ID, Capability: c.ID, Authority: token.SubjectOf(who).Authority(),
			Issued: now, Expires: until,
		})
		if err != nil {
			return purse{}, err
		}
	}
	return p, nil
}

func (p purse) ring() (*token.Ring, error) {
	return token.NewRing(p.inst.Grants.Current, p.inst.Grants.Previous...)
}

// hand derives the tokens of a child. All of them have the child's id as their last link.
func (p purse) hand(child nacre.Principal, tools []nacre.ToolName, until time.Time) (purse, error) {
	given := purse{inst: p.inst, root: p.root, holder: child.ID, tokens: map[nacre.ToolName]nacre.Token{}}
	for _, name := range tools {
		own, has := p.tokens[name]
		if !has {
			return purse{}, fmt.Errorf("it asks for the tool %.64q, which you do not have", name)
		}
		narrower := nacre.Caveat{ID: string(child.Session), Principal: child.ID, Roles: child.Roles}
		if own.Expires.After(until) {
			narrower.Expires = until
		}
		var err error
		if given.tokens[name], err = grant.Derive(own, narrower); err != nil {
			return purse{}, err
		}
	}
	return given, nil
}

// check says why the token for a tool is not good now.
func (p purse) check(group nacre.Group, session nacre.SessionID, tool nacre.ToolName) error {
	held, has := p.tokens[tool]
	if !has {
		return refused("this sub-agent was not given the tool " + string(tool))
	}
	ring, err := p.ring()
	if err != nil {
		return err
	}
	now := p.inst.Options.Now()
	_, err = ring.Verify(held, token.Presentation{
		Caller: p.holder, Subject: token.SubjectOf(p.root), Capability: held.Capability, Now: now, Revoked: p.inst.Revoked,
	})
	if err == nil { // it may be named without those above it, as other sessions are
		if gone, failed := p.inst.Revoked.Revoked("", installation.PrincipalID(group, session), now); failed != nil || gone {
			err = errors.Join(token.ErrRevoked, failed)
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, token.ErrExpired):
		return refused("the time for which this sub-agent was given its tools is over")
	case errors.Is(err, token.ErrRevoked):
		return refused("what this sub-agent was given was taken back")
	}
	return refused("the token of this sub-agent is not good for this")
}

func refused(message string) error {
	return &nacre.Refusal{Code: nacre.CodeUnauthorized, Reason: nacre.ReasonTokenRefused, Message: message}
}
