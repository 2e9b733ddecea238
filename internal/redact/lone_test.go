package redact_test

import (
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/redact"
)

// F-49: words before a name excuse only what does not look like a secret.
func TestAHarmlessWordExcusesNoSecret(t *testing.T) {
	const secret = "qZ8vR3nT6kW1xB9mL4cD7hJ2"
	e := redact.New()
	for _, text := range []string{
		"login failed: the password: " + secret, "invalid token: " + secret, "RESET_TOKEN=" + secret, "change_password=" + secret,
		"export THE_PASSWORD=" + secret, "my password: " + secret, "the token: " + secret, "no password: " + secret,
		"token of the user's secret: " + secret, "valid api_key: " + secret, "forgot_password_token=" + secret,
		"NEXT_TOKEN=" + secret, "public_password=" + secret, "next password: " + secret, "total_secret = " + secret,
		"max_password: " + secret, "MIN_API_KEY=" + secret, "COUNT_TOKEN=" + secret, "the secret: \"" + secret + "\"",
		"idempotency secret: " + secret, "sync password: " + secret, "page password: " + secret, "NUM_SECRET='" + secret + "'",
		"invalid credential: " + secret, "Reset token: " + secret, "invalid password: Tr0ub4dor&3",
		`{"reset_token":"` + secret + `"}`, `{"invalid_password": "` + secret + `"}`, "changePassword: " + secret, "the-password=" + secret,
		"the api key: " + secret, "PUBLIC_TOKEN=" + secret, "cursor_secret: " + secret, "the hmac: " + secret,
	} {
		part := secret[6:18]
		if strings.Contains(text, "Tr0ub") {
			part = "Tr0ub4dor"
		}
		if out, found := e.String(text); !found || strings.Contains(out, part) {
			t.Errorf("%q became %q", text, out)
		}
	}
	for _, text := range []string{
		`{"next_page_token":"9f8e7d6c5b4a39281706"}`, `{"nextToken":"` + secret + `"}`, "cursor_token=" + secret, "pageToken: " + secret,
		"sync_token=" + secret, "continuation-token: " + secret, "idempotency_key=" + secret, "NEXT_PUBLIC_API_KEY=" + secret,
		"the password: please ask", "invalid token: unexpected", "max_tokens=4096", "total_tokens: 12345678", "no password: required",
		"reset password: see below", "change_password: true", "min_password_length = 12", "invalid token: '<='", "the secret: none",
		"Error: invalid password: must contain 8 characters", "the token: 2026-03-01T10:00:00Z", "number of tokens: 128000",
		"valid password: yes", "reset_password: /account/reset", "count of secrets: 3",
	} {
		if out, found := e.String(text); found {
			t.Errorf("%q became %q", text, out)
		}
	}
}

// F-50: in a line of its own a value goes on to its end. In a URL, a form, a call or a list it ends
// where its field does.
func TestAValueInALineOfItsOwnIsTakenWhole(t *testing.T) {
	e := redact.New()
	for text, want := range map[string]string{
		"DB_PASSWORD=Hq7%rT2&wX9zLm4pKd8v":                  "DB_PASSWORD=[REDACTED]",
		"SESSION_KEY=a1B2;c3D4e5F6g7H8i9J0":                 "SESSION_KEY=[REDACTED]",
		"a=1\nDB_PASSWORD=Hq7,rT2<wX9>zLm4|pKd8v\nb=2":      "a=1\nDB_PASSWORD=[REDACTED]\nb=2",
		"export DB_PASSWORD=Hq7|rT2&wX9zLm4pKd8v":           "export DB_PASSWORD=[REDACTED]",
		"db_password: Hq7&rT2<wX9>zLm4pKd8v":                "db_password: [REDACTED]",
		"  password = Hq7;rT2&wX9zLm4pKd8v\n":               "  password = [REDACTED]\n",
		"DB_PASSWORD=Hq7)rT2]wX9}zLm4pKd8v":                 "DB_PASSWORD=[REDACTED]",
		"DB_PASSWORD=Hq7(rT2[wX9{zLm4pKd8v":                 "DB_PASSWORD=[REDACTED]",
		"DB_PASSWORD=Hq7\"rT2'wX9zLm4pKd8v":                 "DB_PASSWORD=[REDACTED]",
		"DB_PASSWORD=&wX9zLm4pKd8v":                         "DB_PASSWORD=[REDACTED]",
		`DB_PASSWORD=Hq7rT2\wX9zLm4pKd8v`:                   "DB_PASSWORD=[REDACTED]",
		`DB_PASSWORD=Hq7\rT2wX9zLm4pKd8v`:                   "DB_PASSWORD=[REDACTED]",
		`db_password: Hq7\nT2\\wX9zLm4pKd8v`:                "db_password: [REDACTED]",
		`DB_PASSWORD=Hq7rT2wX9zLm4pKd8v\nUSER=ann`:          `DB_PASSWORD=[REDACTED]\nUSER=ann`,
		`DB_PASSWORD=Hq7rT2wX9zLm4pKd8v\`:                   `DB_PASSWORD=[REDACTED]\`,
		`DB_PASSWORD=Hq7rT2wX9zLm4pKd8v\n`:                  `DB_PASSWORD=[REDACTED]\n`,
		`{"a":"x\nDB_PASSWORD=Hq7rT2wX9zLm4pKd8v\nend"}`:    `{"a":"x\nDB_PASSWORD=[REDACTED]\nend"}`,
		"DB_PASSWORD=Hq7<aT2>wX9zLm4pKd8v":                  "DB_PASSWORD=[REDACTED]",
		"+API_TOKEN=a1B2,c3D4e5F6g7H8i9J0\n-API_TOKEN=x":    "+API_TOKEN=[REDACTED]\n-API_TOKEN=x",
		"12:DB_PASSWORD=Hq7&rT2wX9zLm4":                     "12:DB_PASSWORD=[REDACTED]",
		"DB_PASSWORD=Hq7&rT2=wX9zLm4pKd8v":                  "DB_PASSWORD=[REDACTED]",
		"password=Hq7rT2wX9zLm4&user=ann":                   "password=[REDACTED]&user=ann",
		"https://h.test/?password=Hq7rT2wX9zLm4&x":          "https://h.test/?password=[REDACTED]&x",
		"https://h.test/?a=1&token=Hq7rT2wX9zLm4;y":         "https://h.test/?a=1&token=[REDACTED];y",
		"Server=db1;Password=Hq7rT2wX9zLm4;Port=1":          "Server=db1;Password=[REDACTED];Port=1",
		"Password=Hq7rT2wX9zLm4;Server=db1":                 "Password=[REDACTED];Server=db1",
		"login(user, password=Hq7rT2wX9zLm4)":               "login(user, password=[REDACTED]",
		"<password>Hq7rT2wX9zLm4</password>":                "<password>[REDACTED]</password>",
		"password=hunter2,ghp_" + strings.Repeat("a", 36):   "password=[REDACTED]",
		"password: Hq7rT2wX9zLm4, user: ann":                "password: [REDACTED], user: ann",
		"curl -d 'password=Hq7rT2wX9zLm4&x' h":              "curl -d 'password=[REDACTED]&x' h",
		"password: Hq7rT2wX9zLm4;":                          "password: [REDACTED];",
		"Cookie2: a=b; session_token=Hq7rT2wX9zLm4; Path=/": "Cookie2: a=b; session_token=[REDACTED]; Path=/",
	} {
		if out, _ := e.String(text); out != want {
			t.Errorf("%q became %q, want %q", text, out, want)
		}
	}
	for _, text := range []string{
		"let token: Map<string>;", "token = lexer.next(1);", "password: string; token: Token",
		"token := parse2(a, b1)", "secret = items[2]", "type: password; length: 12;",
	} {
		if out, found := e.String(text); found {
			t.Errorf("%q became %q", text, out)
		}
	}
}
