package testpeer

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/url"
	"testing"
)

// Authenticator is a person's phone or security key with one passkey, and the browser that asks it. A test
// changes what they say.
type Authenticator struct {
	Key    *ecdsa.PrivateKey
	ID     []byte
	Handle string
	Count  uint32
	// The flags that the person is present and verified, and that a credential comes along.
	Present, Verified, Made byte
	// Origin is what the browser says, and Site what the authenticator does.
	Origin, Site string
	Crossed      bool

	host string // of the page
}

// NewAuthenticator is one whose browser shows the page of an origin.
func NewAuthenticator(t *testing.T, origin string) *Authenticator {
	t.Helper()
	at, err := url.Parse(origin)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	host := at.Hostname()
	return &Authenticator{Key: key, ID: []byte(rand.Text()), Count: 1, Present: 1, Verified: 4, Made: 0x40, Origin: origin, Site: host, host: host}
}

// base64url is how a browser writes bytes.
func base64url(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

func (a *Authenticator) client(kind, challenge string) []byte {
	data, _ := json.Marshal(map[string]any{"type": kind, "challenge": challenge, "origin": a.Origin, "crossOrigin": a.Crossed}) // it can be written
	return data
}

func (a *Authenticator) data(made byte) []byte {
	site := sha256.Sum256([]byte(a.Site))
	return binary.BigEndian.AppendUint32(append(site[:], a.Present|a.Verified|made), a.Count)
}

// Creates answers what a page asks for that adds a passkey.
func (a *Authenticator) Creates(t *testing.T, asked []byte) []byte {
	t.Helper()
	var options struct {
		Challenge string `json:"challenge"`
		User      struct {
			ID string `json:"id"`
		} `json:"user"`
		Selection struct {
			Verification string `json:"userVerification"`
			Resident     string `json:"residentKey"`
		} `json:"authenticatorSelection"`
	}
	if err := json.Unmarshal(asked, &options); err != nil || options.Selection.Verification != "required" || options.Selection.Resident != "required" {
		t.Fatalf("asked for %s, %v", asked, err)
	}
	a.Handle = options.User.ID
	point, err := a.Key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	cose := append([]byte{0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20}, point[1:33]...)
	cose = append(append(cose, 0x22, 0x58, 0x20), point[33:]...)
	data := append(a.data(a.Made), make([]byte, 16)...)
	data = append(binary.BigEndian.AppendUint16(data, uint16(len(a.ID))), a.ID...) //nolint:gosec // an id is short
	data = append(data, cose...)
	object := append([]byte{0xa3, 0x63, 'f', 'm', 't', 0x64, 'n', 'o', 'n', 'e', 0x67, 'a', 't', 't', 'S', 't', 'm', 't', 0xa0, 0x68, 'a', 'u', 't', 'h', 'D', 'a', 't', 'a', 0x58, byte(len(data))}, data...) //nolint:gosec // less than 256 bytes
	return a.says(map[string]any{"clientDataJSON": base64url(a.client("webauthn.create", options.Challenge)), "attestationObject": base64url(object)})
}

// Signs answers what a page asks for that signs somebody in.
func (a *Authenticator) Signs(t *testing.T, asked []byte) []byte {
	t.Helper()
	var options struct {
		Challenge    string `json:"challenge"`
		Verification string `json:"userVerification"`
		Site         string `json:"rpId"`
	}
	if err := json.Unmarshal(asked, &options); err != nil || options.Verification != "required" || options.Site != a.host {
		t.Fatalf("asked for %s, %v", asked, err)
	}
	a.Count++
	client, data := a.client("webauthn.get", options.Challenge), a.data(0)
	sum := sha256.Sum256(client)
	signed := sha256.Sum256(append(bytes.Clone(data), sum[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, a.Key, signed[:])
	if err != nil {
		t.Fatal(err)
	}
	return a.says(map[string]any{"clientDataJSON": base64url(client), "authenticatorData": base64url(data), "signature": base64url(signature), "userHandle": a.Handle})
}

func (a *Authenticator) says(response map[string]any) []byte {
	answer, _ := json.Marshal(map[string]any{"id": base64url(a.ID), "rawId": base64url(a.ID), "type": "public-key", "response": response, "clientExtensionResults": map[string]any{}}) // it can be written
	return answer
}
