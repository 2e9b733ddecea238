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
	l := Login{Access: nacre.NewSecret(t.Access), Refresh: nacre.NewSecret(t.Refresh), Account: t.Account, Expires: expiryOf(t.Access)}
	if !l.owns(t.Access) {
		return Login{}, errors.New("the program's login is of two accounts")
	}
	return l, nil
}

// owns tells whether a token is of the login's account, as far as both of them name one.
func (l Login) owns(token string) bool {
	account := claimsOf(token).OpenAI.Account
	return account == "" || l.Account == "" || account == l.Account
}

// claims are what nacre reads of a token that is a JWT.
type claims struct {
	Expires int64 `json:"exp"` // seconds since 1970
	OpenAI  struct {
		Account string `json:"chatgpt_account_id"`
	} `json:"https://api.openai.com/auth"`
}

// claimsOf reads them; the zero value where the token is not a JWT of the known form. Nobody
// has checked its signature: nothing rests on them but when the token is refreshed, and that
// one which names another account is not used. The vendor checks the token.
func claimsOf(token string) claims {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return claims{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	var c claims
	if err != nil || json.Unmarshal(payload, &c) != nil {
		return claims{}
	}
	return c
}

// expiryOf reads when a token ends, where it says so; else the zero time.
func expiryOf(token string) time.Time {
	c := claimsOf(token)
	if c.Expires <= 0 {
		return time.Time{}
	}
	return time.Unix(c.Expires, 0).UTC()
}
