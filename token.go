package nacre

import (
	"errors"
	"time"
)

// Why a token is refused. A kernel's refusal of one wraps the error that tells,
// for errors.Is; the agent is told no more than its message says (K-10).
var (
	ErrTokenRevoked    = errors.New("token revoked")
	ErrTokenExpired    = errors.New("token expired")
	ErrTokenUnknownKey = errors.New("token signed by an unknown key")
	ErrTokenSignature  = errors.New("token signature does not match")
	ErrTokenPrincipal  = errors.New("token belongs to another principal, or to other roles and attributes")
	ErrTokenCapability = errors.New("token is for another capability or other arguments")
	ErrTokenArguments  = errors.New("arguments are outside of what the token allows")
	ErrTokenSpent      = errors.New("token has no uses left")
	// ErrTokenMalformed is a token, caveat or constraint that nobody could have
	// made by the rules.
	ErrTokenMalformed = errors.New("token malformed")
)

// Token is a grant: proof that this host's policy let a principal use a
// capability, and how far (K-10). It is a bearer's ticket only for the
// principal it names; every field is under the MAC. The zero value never
// verifies.
type Token struct {
	ID         string       `json:"id"`
	KeyID      string       `json:"key_id"`
	Principal  string       `json:"principal"`
	Capability CapabilityID `json:"capability"`
	// Authority is a digest of the principal's group, session, roles and attributes.
	Authority   [32]byte    `json:"authority"`
	Constraints Constraints `json:"constraints,omitzero"`
	// Arguments is a digest of the only arguments it is good for; zero means any
	// that Constraints allow.
	Arguments [32]byte `json:"arguments,omitzero"`
	// Issued is when it was minted.
	Issued time.Time `json:"issued"`
	// Expires is the first instant at which it is no longer good.
	Expires time.Time `json:"expires"`
	// Uses is how often it may be spent; nil means as often as policy's rate allows.
	Uses *int `json:"uses,omitzero"`
	// Caveats are what holders took away, in order (K-11).
	Caveats []Caveat `json:"caveats,omitempty"`
	MAC     [32]byte `json:"mac"`
}

// Caveat is one narrowing by a holder, who needs no key for it. Nothing in it
// can give back what the token or an earlier caveat took.
type Caveat struct {
	// ID names the derived token beneath what it derives from: "c" of the token
	// "t" is revoked as "t/c". Its root's uses are charged.
	ID string `json:"id"`
	// Principal, where set, hands the token down: it must lie under the
	// holder's, as "a/b" lies under "a".
	Principal string `json:"principal,omitempty"`
	// Roles, where not nil, are the only roles that the holder may still act in.
	Roles       []string    `json:"roles,omitzero"`
	Constraints Constraints `json:"constraints,omitzero"`
	Expires     time.Time   `json:"expires,omitzero"`
	Uses        *int        `json:"uses,omitzero"`
}
