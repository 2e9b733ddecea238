package redact_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/redact"
)

// F-52: what people and programs commonly write around a secret.
func TestSecretsAreFoundInTheirCommonSurroundings(t *testing.T) {
	const (
		random = "qZ8vR3nT6kW1xB9mL4cD7hJ2"
		figure = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	)
	r := rand.New(rand.NewPCG(52, 1))
	made := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = figure[r.IntN(len(figure))]
		}
		return "a1" + string(b[2:])
	}
	azure, bot := made(76), "MTk4NjIyNDgzNDcxOTI1MjQ4."+made(6)+"."+made(27)
	for _, c := range []struct{ text, secret string }{
		{"pw: " + random[:12], random[:12]},
		{"The password is: " + random, random},
		{"ConvertTo-SecureString '" + random + "' -AsPlainText -Force", random},
		{"AUTH PLAIN AGFkYQBxWjh2UjNuVDZrVzF4QjltTDRjRDdoSjI=", "AGFkYQBxWjh2UjNuVDZrVzF4QjltTDRjRDdoSjI"},
		{"FlyV1 fm2_lJPECAAAAAAAAAAAxBC" + made(40), ""},
		{"db pw:" + random[:12], random[:12]},
		{"error: expired token " + random, random},
		{"incorrect API key provided: " + random, random},
		{"Invalid access token given: " + random, random},
		{`Use the token "` + random + `" to log in`, random},
		{`Use the token "` + random[:16] + `" to log in`, random[:16]},
		{"the api key '" + random[:16] + "' was refused", random[:16]},
		{`variable "db_password" { default = "` + random[:16] + `" }`, random[:16]},
		{"variable \"db_password\" {\n  type    = string\n  default = \"" + random[:16] + "\"\n}", random[:16]},
		{"GET /v1/places?key=" + random + " HTTP/1.1", random},
		{"https://api.example.com/x?a=1&key=" + random, random},
		{"::add-mask::" + random[:16], random[:16]},
		{"CREATE USER u WITH ENCRYPTED PASSWORD '" + random[:4] + " " + random[4:16] + "'", random[:16]},
		{"CREATE USER u IDENTIFIED BY '" + random[:16] + "';", random[:16]},
		{`alter user u identified by "` + random[:16] + `"`, random[:16]},
		{"ALTER USER u IDENTIFIED WITH caching_sha2_password BY '" + random[:16] + "'", random[:16]},
		{"root:$6$rounds=5000$saltsalt$" + made(86) + ":19000:0:99999:7:::", ""},
		{"root:$y$j9T$F5Jx5fExrKuPp53xLKQ..1$" + made(43) + ":19000:0:99999:7:::", ""},
		{"admin:$2b$12$" + made(53), ""},
		{"web:$apr1$" + made(8) + "$" + made(22), ""},
		{"GOOG1E" + made(55), ""},
		{"ion_" + made(42), ""},
		{azure + "AZDO" + made(4), azure},
		{"+" + bot, bot}, {"-" + bot, bot}, {"_" + bot, bot}, {"a/" + bot, bot}, {`"a\n` + bot + `"`, bot},
	} {
		secret := c.secret
		if secret == "" {
			secret = c.text[len(c.text)/2-4 : len(c.text)/2+4]
		}
		out, _ := redact.New().String(c.text)
		if strings.Contains(out, secret[len(secret)/2:]) {
			t.Errorf("%s\nis shown as %s", c.text, out)
		}
	}
}

// F-54: the same surroundings around what is no secret.
func TestWhatIsNoSecretIsShownInTheSameSurroundings(t *testing.T) {
	for _, text := range []string{
		"pw: see the vault", "the password is: not here", "250 AUTH PLAIN LOGIN", "ConvertTo-SecureString $text -AsPlainText", "login :: Name -> Password -> Session", "$user->password->verify($given1A)", "an expired token is refused", "incorrect API key provided", "No API key was given: set one",
		`variable "db_password" { type = string }`, `variable "db_password" { default = null }`, `variable "db_password" { default = var.other }`,
		"GET /list?key=name&order=asc HTTP/1.1", "https://example.com/?key=title", "::add-mask::$TOKEN", "use the token, then log in",
		`Use the token "UserToken2Factory" to`, `the token "tokenAtLine12Col4" is no name`, `unexpected token 'Int64ToString16Le' in`, `expected token "sha256WithRSA2048" here`,
		"the token was used by UserAuthenticationManagerFactory", "costs $6$ or $5$ each", "s/(a)(b)/$1$2/", "the AZDO pipeline", "good1example",
	} {
		if out, _ := redact.New().String(text); out != text {
			t.Errorf("%s\nis shown as %s", text, out)
		}
	}
}
