package person

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Face is where a person reads a question and presses a button.
type Face string

// The faces. The terminal and the web page are shown by the host itself; the others are
// services that carry a person's press to it.
const (
	Terminal Face = "terminal"
	Web      Face = "web"
	Slack    Face = "slack"
	Discord  Face = "discord"
	Telegram Face = "telegram"
)

// Host tells the faces that the host itself shows, where everything may be decided.
func (f Face) Host() bool { return f == Terminal || f == Web }

// The limits of an identity, in bytes.
const (
	maxIdentity  = 160
	maxHandle    = 128
	maxSlackPart = 32
	maxDigits    = 20
	// passkeyDigits are the hexadecimal digits that name a passkey.
	passkeyDigits = 32
	// maxUID is the highest uid of a user: the one above it means "no user".
	maxUID = 1<<32 - 2
)

// Identity names a person at a face by an id that never changes and that nobody chooses:
// terminal:UID, web:NAME, web:passkey:DIGITS, slack:TEAM:USER, discord:ID or telegram:ID. Names
// and addresses are no identities, because their owners change.
type Identity string

// passkey is in front of the digits of an identity that is a passkey's.
const passkey = string(Web) + ":passkey:"

// ParseIdentity reads an identity. There is one way to write each.
func ParseIdentity(text string) (Identity, error) {
	face, id, _ := strings.Cut(text, ":")
	ok := len(text) <= maxIdentity
	switch Face(face) {
	case Terminal:
		uid, err := strconv.ParseUint(id, 10, 32)
		ok = ok && err == nil && uid <= maxUID && strconv.FormatUint(uid, 10) == id
	case Web:
		if digits, isKey := strings.CutPrefix(text, passkey); isKey {
			ok = len(digits) == passkeyDigits && only(digits, "0123456789abcdef")
			break
		}
		ok = ok && id != "" && len(id) <= maxHandle && only(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
	case Slack:
		team, user, found := strings.Cut(id, ":")
		ok = ok && found && slackID(team, "TE") && slackID(user, "UW")
	case Discord, Telegram:
		ok = ok && id != "" && len(id) <= maxDigits && id[0] != '0' && only(id, "0123456789")
	default:
		ok = false
	}
	if !ok {
		return "", fmt.Errorf("%.80q is not an identity: write terminal:UID, web:NAME, web:passkey:DIGITS, slack:TEAM:USER, discord:ID or telegram:ID, with the ids that never change and not with names", text)
	}
	return Identity(text), nil
}

// slackID tells ids of Slack, which begin with one of some letters.
func slackID(id, first string) bool {
	return len(id) >= 2 && len(id) <= maxSlackPart && strings.Contains(first, id[:1]) && only(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
}

func only(text, letters string) bool {
	return strings.Trim(text, letters) == ""
}

// Face is where the identity presses; empty for the zero identity, which nobody has.
func (i Identity) Face() Face {
	face, _, _ := strings.Cut(string(i), ":")
	return Face(face)
}

// OfUser is a user of this machine at a terminal.
func OfUser(uid int) Identity { return Identity(string(Terminal) + ":" + strconv.Itoa(uid)) }

// OfVisitor is a user of this machine who opened the link of nacre web.
func OfVisitor(uid int) Identity { return Identity(string(Web) + ":" + strconv.Itoa(uid)) }

// OfPasskey is whoever signs in to the web page with a passkey. Its digits name the credential
// and its public key, so no other key is ever the same person.
func OfPasskey(credential, publicKey []byte) Identity {
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%d:%s%d:%s", len(credential), credential, len(publicKey), publicKey) // a hash takes all
	return Identity(passkey + hex.EncodeToString(sum.Sum(nil)[:passkeyDigits/2]))
}

// Passkey tells the identities that are passkeys.
func (i Identity) Passkey() bool { return strings.HasPrefix(string(i), passkey) }
