// Package ceremony makes and checks what a browser and an authenticator are asked for when a passkey
// is added and when somebody signs in with one (WebAuthn Level 3). It promises that what they answer
// was asked for here, in this process, less than [Time] ago, and for this origin and no other. An
// answer is taken once, and the authenticator has verified its owner.
//
// It keeps no keys, and what is asked is not kept either, so strangers who ask fill nothing. A
// challenge says itself what it is for, under a code that only this process can make.
package ceremony

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/nacre-dev/nacre/internal/passkey"
)

const (
	// Time is how long an answer is waited for.
	Time = 2 * time.Minute

	// A challenge is random bytes, the moment at which it was made, and a code of both. The moment
	// is by the time that this machine was awake and by the clock on the wall.
	nonceSize, momentSize, codeSize = 16, 16, sha256.Size
	handleSize                      = 32
	// maxID is the longest id of a credential, as the standard has it.
	maxID = 1023
)

// The reasons for which an answer is refused.
var (
	// ErrName is for a page under an address: passkeys are bound to names.
	ErrName = errors.New("a passkey is bound to a name, and this page is shown under an address")
	// ErrLate is for what was asked too long ago, by another process, for something else, or was
	// answered already.
	ErrLate = errors.New("this was answered too late or twice, or was never asked here: begin anew")
)

// Room is where ceremonies are begun and ended. It is safe for concurrent use.
type Room struct {
	now   func() time.Time
	began time.Time
	key   []byte

	mu sync.Mutex
	// used are the challenges that were answered, and when they were made: none is longer here
	// than it could be answered.
	used map[string]time.Duration
}

// New makes a room. An answer is late by whichever clock is further on, as package deadline has it.
func New(now func() time.Time) *Room {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return &Room{now: now, began: now(), key: key, used: map[string]time.Duration{}}
}

// purposes that a challenge is for.
const signing, adding = "sign in", "add"

// AskSignIn is what a browser at an origin is asked for, in JSON, to sign somebody in.
func (r *Room) AskSignIn(origin string) ([]byte, error) {
	party, _, err := partyOf(origin)
	if err != nil {
		return nil, err
	}
	asked, _, err := party.BeginDiscoverableLogin(webauthn.WithUserVerification(protocol.VerificationRequired),
		webauthn.WithChallenge(r.challenge(signing, origin)))
	if err != nil {
		return nil, reason(err)
	}
	return json.Marshal(asked.Response)
}

// SignedIn checks the answer of a browser: find gives the key of a credential. What comes is
// the key that signed, with the counter that its authenticator shows.
func (r *Room) SignedIn(origin string, answer []byte, find func(id []byte) (passkey.Key, bool)) (passkey.Key, error) {
	party, session, err := partyOf(origin)
	if err != nil {
		return passkey.Key{}, err
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(answer)
	if err != nil {
		return passkey.Key{}, reason(err)
	}
	session.Challenge = parsed.Response.CollectedClientData.Challenge
	made, err := r.asked(session.Challenge, signing, origin)
	if err != nil {
		return passkey.Key{}, err
	}
	var key passkey.Key
	_, _, err = party.ValidatePasskeyLogin(func(id, _ []byte) (webauthn.User, error) {
		found, known := find(id)
		if !known || found.Site != session.RelyingPartyID {
			return nil, passkey.ErrUnknown
		}
		key = found
		return owner{keys: []passkey.Key{found}, handle: found.Handle}, nil
	}, session, parsed)
	if err != nil {
		return passkey.Key{}, reason(err)
	}
	if err := r.use(session.Challenge, made); err != nil {
		return passkey.Key{}, err
	}
	key.Count = parsed.Response.AuthenticatorData.Counter
	return key, nil
}

// Adding is who adds a passkey. The authenticator shows Name, Session is whose form it is that is
// answered, and Known are the keys that the person has already.
type Adding struct {
	Origin, Name, Session string
	Known                 []passkey.Key
}

// AskNew is what a browser is asked for, in JSON, to make a passkey.
func (r *Room) AskNew(a Adding) ([]byte, error) {
	party, _, err := partyOf(a.Origin)
	if err != nil {
		return nil, err
	}
	challenge := r.challenge(adding, a.Origin, a.Name, a.Session)
	who := owner{name: a.Name, keys: a.Known, handle: r.handle(challenge)}
	asked, _, err := party.BeginRegistration(who, webauthn.WithExclusions(webauthn.Credentials(who.WebAuthnCredentials()).CredentialDescriptors()))
	if err != nil {
		return nil, reason(err)
	}
	asked.Response.Challenge = challenge
	return json.Marshal(asked.Response)
}

// New checks the answer of a browser, and gives the key that was made.
func (r *Room) New(a Adding, answer []byte) (passkey.Key, error) {
	party, session, err := partyOf(a.Origin)
	if err != nil {
		return passkey.Key{}, err
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(answer)
	if err != nil {
		return passkey.Key{}, reason(err)
	}
	session.Challenge = parsed.Response.CollectedClientData.Challenge
	made, err := r.asked(session.Challenge, adding, a.Origin, a.Name, a.Session)
	if err != nil {
		return passkey.Key{}, err
	}
	raw, _ := base64.RawURLEncoding.DecodeString(session.Challenge) // as asked has
	session.UserID, session.CredParams = r.handle(raw), webauthn.CredentialParametersDefault()
	checked, err := party.CreateCredential(owner{handle: session.UserID}, session, parsed)
	if err != nil {
		return passkey.Key{}, reason(err)
	}
	if len(checked.ID) == 0 || len(checked.ID) > maxID {
		return passkey.Key{}, fmt.Errorf("the id of a passkey has 1 to %d bytes, and this one has %d", maxID, len(checked.ID))
	}
	if err := r.use(session.Challenge, made); err != nil {
		return passkey.Key{}, err
	}
	return passkey.Key{
		ID: checked.ID, PublicKey: checked.PublicKey, Handle: session.UserID, Site: session.RelyingPartyID,
		Count: checked.Authenticator.SignCount, Synced: checked.Flags.BackupEligible,
	}, nil
}

// partyOf is the page at an origin, as browsers know it, and what is asked of each answer there.
func partyOf(origin string) (*webauthn.WebAuthn, webauthn.SessionData, error) {
	at, err := url.Parse(origin)
	if err != nil {
		return nil, webauthn.SessionData{}, err
	}
	if _, err := netip.ParseAddr(at.Hostname()); err == nil {
		return nil, webauthn.SessionData{}, ErrName
	}
	party, err := webauthn.New(&webauthn.Config{
		RPID: at.Hostname(), RPDisplayName: "nacre", RPOrigins: []string{origin},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementRequired, RequireResidentKey: protocol.ResidentKeyRequired(),
			UserVerification: protocol.VerificationRequired,
		},
		Timeouts: webauthn.TimeoutsConfig{Login: webauthn.TimeoutConfig{Timeout: Time}, Registration: webauthn.TimeoutConfig{Timeout: Time}},
	})
	return party, webauthn.SessionData{RelyingPartyID: at.Hostname(), Origin: origin, UserVerification: protocol.VerificationRequired}, err
}

func (r *Room) challenge(purpose ...string) []byte {
	made := make([]byte, nonceSize, nonceSize+momentSize+codeSize)
	_, _ = rand.Read(made) // never fails
	now := r.now()
	made = binary.BigEndian.AppendUint64(made, uint64(now.Sub(r.began))) //nolint:gosec // asked reads it back as it was
	made = binary.BigEndian.AppendUint64(made, uint64(now.Round(0).UnixNano()))
	return append(made, r.code(made, purpose...)...)
}

// asked tells when a challenge was made, where that was for this purpose and not too long ago.
func (r *Room) asked(challenge string, purpose ...string) (made time.Duration, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(challenge)
	if err != nil || len(raw) != nonceSize+momentSize+codeSize {
		return 0, ErrLate
	}
	body, code := raw[:nonceSize+momentSize], raw[nonceSize+momentSize:]
	if !hmac.Equal(code, r.code(body, purpose...)) {
		return 0, ErrLate
	}
	made = time.Duration(binary.BigEndian.Uint64(body[nonceSize:]))               //nolint:gosec // it was made of a duration here
	onTheWall := time.Unix(0, int64(binary.BigEndian.Uint64(body[nonceSize+8:]))) //nolint:gosec // it was made of a time here
	now := r.now()
	if age := now.Sub(r.began) - made; age < 0 || age >= Time || now.Round(0).Sub(onTheWall) >= Time {
		return 0, ErrLate
	}
	return made, nil
}

// use takes a challenge, once.
func (r *Room) use(challenge string, made time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now().Sub(r.began)
	for old, at := range r.used {
		if now-at >= Time {
			delete(r.used, old)
		}
	}
	if _, there := r.used[challenge]; there {
		return ErrLate
	}
	r.used[challenge] = made
	return nil
}

// handle is what the authenticator will know the owner of a new key by. It tells nothing.
func (r *Room) handle(challenge []byte) []byte { return r.code(challenge, "handle")[:handleSize] }

func (r *Room) code(body []byte, purpose ...string) []byte {
	sum := hmac.New(sha256.New, r.key)
	for _, one := range append([]string{string(body)}, purpose...) {
		_, _ = fmt.Fprintf(sum, "%d:%s", len(one), one) // a hash takes all
	}
	return sum.Sum(nil)
}

// reason is what the library says to a person, with what it has found.
func reason(err error) error {
	if errors.Is(err, passkey.ErrUnknown) {
		return passkey.ErrUnknown
	}
	var said *protocol.Error
	if errors.As(err, &said) {
		return fmt.Errorf("the passkey is refused: %s", bytes.TrimRight([]byte(said.Details), "."))
	}
	return fmt.Errorf("the passkey is refused: %w", err)
}

// owner is a person, as the library knows one.
type owner struct {
	name   string
	keys   []passkey.Key
	handle []byte
}

// WebAuthnID is the person's handle.
func (o owner) WebAuthnID() []byte { return o.handle }

// WebAuthnName is the operator's name.
func (o owner) WebAuthnName() string { return o.name }

// WebAuthnDisplayName is the same: an operator has one name.
func (o owner) WebAuthnDisplayName() string { return o.name }

// WebAuthnCredentials are the person's passkeys.
func (o owner) WebAuthnCredentials() []webauthn.Credential {
	var all []webauthn.Credential
	for _, k := range o.keys {
		all = append(all, webauthn.Credential{
			ID: k.ID, PublicKey: k.PublicKey, Flags: webauthn.CredentialFlags{UserVerified: true, BackupEligible: k.Synced},
			Authenticator: webauthn.Authenticator{SignCount: k.Count},
		})
	}
	return all
}
