package login

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
)

// Read reads the file in which the vendor's program keeps its login.
func Read(v Vendor, data []byte) (Login, error) {
	if len(data) > maxFile {
		return Login{}, errors.New("the file of the login is too large")
	}
	var l Login
	var err error
	switch v {
	case Claude:
		l, err = readClaude(data)
	case Codex:
		l, err = readCodex(data)
	default:
		_, err = Parse(string(v))
	}
	if err == nil && (!isToken(l.Access.Reveal()) || !isToken(l.Refresh.Reveal())) {
		err = errors.New("the program kept no whole login")
	}
	if err != nil {
		return Login{}, err
	}
	return l, nil
}

// Token is a login that is one long-lived token, which the vendor's program prints.
func Token(text string) (Login, error) {
	text = strings.TrimSpace(text)
	if !isToken(text) {
		return Login{}, errors.New("the input is not a token: paste the one line that claude setup-token prints")
	}
	return Login{Access: nacre.NewSecret(text)}, nil
}

func readClaude(data []byte) (Login, error) {
	var file struct {
		OAuth struct {
			Access  string   `json:"accessToken"`
			Refresh string   `json:"refreshToken"`
			Expires int64    `json:"expiresAt"` // milliseconds
			Scopes  []string `json:"scopes"`
		} `json:"claudeAiOauth"`
	}
	if json.Unmarshal(data, &file) != nil {
		return Login{}, errors.New("the program's login is not JSON of the known form")
	}
	o := file.OAuth
	return Login{
		Access: nacre.NewSecret(o.Access), Refresh: nacre.NewSecret(o.Refresh), Scopes: o.Scopes, Expires: time.UnixMilli(o.Expires).UTC(),
	}, nil
}

func readCodex(data []byte) (Login, error) {
	var file struct {
		Tokens struct {
			Access  string `json:"access_token"`
			Refresh string `json:"refresh_token"`
			Account string `json:"account_id"`
		} `json:"tokens"`
	}
	if json.Unmarshal(data, &file) != nil {
		return Login{}, errors.New("the program's login is not JSON of the known form")
	}
	t := file.Tokens
	if t.Account != "" && !isToken(t.Account) {
		return Login{}, errors.New("the account of the program's login is not a name")
	}
	return Login{
		Access: nacre.NewSecret(t.Access), Refresh: nacre.NewSecret(t.Refresh), Account: t.Account, Expires: expiryOf(t.Access),
	}, nil
}

// expiryOf reads when a token ends, where it is a JWT that says so; else the zero time.
// Nothing rests on it but when the token is refreshed: the vendor checks the token.
func expiryOf(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Expires int64 `json:"exp"`
	}
	if json.Unmarshal(payload, &claims) != nil || claims.Expires <= 0 {
		return time.Time{}
	}
	return time.Unix(claims.Expires, 0).UTC()
}
