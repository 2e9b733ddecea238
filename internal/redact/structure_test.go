package redact_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/redact"
)

const inside = "qZ8vR3nT6kW1xB9m"

// pemLines are the lines of a private key that is none.
func pemLines() []string {
	body := strings.Repeat("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj", 1)
	return []string{"-----BEGIN PRIVATE KEY-----", body, strings.Replace(body, "M", "x", 1), "aB3dE5fG7h==", "-----END PRIVATE KEY-----"}
}

// F-51: below a secret name, what looks like a secret is one, however deep.
func TestSecretsInStructuresAreHidden(t *testing.T) {
	e := redact.New()
	for name, raw := range map[string]string{
		"an object under a name":       `{"password":{"v":"` + inside + `"}}`,
		"an object in one":             `{"password":{"a":{"b":"` + inside + `"}}}`,
		"a list in an object":          `{"secret":{"all":["x","` + inside + `"]}}`,
		"an object in such a list":     `{"secret":{"all":[{"it":"` + inside + `"}]}}`,
		"a list under a name":          `{"api_tokens":["` + inside + `"]}`,
		"an object under a part":       `{"db_password_prod":{"x":"` + inside + `"}}`,
		"a list of objects":            `{"credentials":[{"v":"` + inside + `"}]}`,
		"under a token":                `{"auth_token":{"jwt":"` + inside + `"}}`,
		"a name in an object":          `{"secret":{"api_key":"` + inside + `"}}`,
		"columns and rows":             `{"columns":["user","password"],"rows":[["ann","` + inside + `"],["bob","Zx7` + inside + `"]]}`,
		"rows with a header":           `[["user","api_key","n"],["ann","` + inside + `",1]]`,
		"a JSON Web Key":               `{"kty":"EC","crv":"P-256","x":"a","y":"b","d":"` + inside + inside + `"}`,
		"a type that comes last":       `{"d":"` + inside + inside + `","kty":"OKP"}`,
		"a symmetric key":              `{"keys":[{"kty":"oct","k":"` + inside + `","kid":"1"}]}`,
		"the primes of a key":          `{"kty":"RSA","n":"x","p":"` + inside + `","q":"a","dp":"b","dq":"c","qi":"d"}`,
		"CSV in a text":                `{"out":"user,password\nann,` + inside + `\n"}`,
		"Markdown in a text":           `{"out":"| user | password |\n|---|---|\n| ann | ` + inside + ` |"}`,
		"a Web Key in a text":          `{"out":"{\"kty\":\"EC\",\"d\":\"` + inside + inside + `\"}"}`,
		"a name after a deeper object": `{"secret":{"meta":{"n":1},"v":"` + inside + `"}}`,
	} {
		out, paths, err := e.JSON([]byte(raw))
		if err != nil || strings.Contains(string(out), inside) || len(paths) == 0 {
			t.Errorf("%s: have %s, %v, %v", name, out, paths, err)
		}
	}
	for name, raw := range map[string]string{
		"a schema":                   `{"properties":{"password":{"type":"string","minLength":8,"pattern":"^[A-Za-z0-9]{8,64}$","description":"at least 8 characters","example":"Example123"}}}`,
		"where it is kept":           `{"secret":{"name":"prod/db-2","arn":"arn:aws:secretsmanager:eu-1:1:secret:db1","created":"2026-03-01T10:00:00Z"}}`,
		"a parser's token":           `{"token":{"type":"ident","line":12,"text":"foo"}}`,
		"members without a type":     `{"d":"` + inside + inside + `","p":"` + inside + `"}`,
		"a public Web Key":           `{"kty":"EC","crv":"P-256","x":"` + inside + `","y":"` + inside + `","kid":"` + inside + `"}`,
		"columns of something else":  `{"columns":["user","commit"],"rows":[["ann","` + inside + `"]]}`,
		"names of what is required":  `{"required":["user","password"],"enum":["first","second"]}`,
		"a version below a password": `{"password":{"version":"v1.2.3-beta4","expires":"2027-01-01"}}`,
	} {
		if out, paths, err := e.JSON([]byte(raw)); err != nil || len(paths) > 0 {
			t.Errorf("%s: have %s, %v, %v", name, out, paths, err)
		}
	}
}

// F-51: a private key is one also where its lines are elements of a list, or
// members of its objects.
func TestAKeyInLinesOfAListIsHidden(t *testing.T) {
	e := redact.New()
	lines := pemLines()
	list, rows := make([]string, len(lines)), make([]string, len(lines))
	for i, line := range lines {
		list[i], rows[i] = fmt.Sprintf("%q", line), fmt.Sprintf(`{"n":%d,"kind":"text","line":%q}`, i, line)
	}
	for name, raw := range map[string]string{
		"a list": "[" + strings.Join(list, ",") + `,"after"]`, "rows": "[" + strings.Join(rows, ",") + `,{"kind":"text","line":"after"}]`,
	} {
		out, _, err := e.JSON([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines[1:4] {
			if strings.Contains(string(out), line) {
				t.Errorf("%s: %s is shown in %s", name, line, out)
			}
		}
		if !strings.Contains(string(out), "after") || !strings.Contains(string(out), "BEGIN") {
			t.Errorf("%s: more is hidden than the key: %s", name, out)
		}
	}
}

// F-51: a column under a secret name holds secrets, in all the tables that
// programs print.
func TestSecretsInTablesAreHidden(t *testing.T) {
	e := redact.New()
	for name, text := range map[string]string{
		"CSV":                    "user,password\nann," + inside + "\nbob,x\n",
		"CSV with quotes":        "\"user\",\"password\"\n\"ann, b\",\"" + inside + "\"\n",
		"CSV with semicolons":    "user;api_key;n\nann;" + inside + ";1\n",
		"tabs":                   "user\ttoken\nann\t" + inside + "\n",
		"the first column":       "password,user\n" + inside + ",ann\n",
		"lines that end in CRLF": "user,password\r\nann," + inside + "\r\n",
		"Markdown":               "| user | password |\n|------|:--------:|\n| ann | " + inside + " |\n",
		"Markdown, marked":       "| **User** | **Password** |\n|---|---|\n| ann | `" + inside + "` |\n",
		"Markdown without ends":  "user | secret\n---|---\nann | " + inside + "\n",
		"a database's shell":     " user | password \n------+----------\n ann  | " + inside + "\n(1 row)\n",
		"a box":                  "+------+----------+\n| user | password |\n+------+----------+\n| ann  | " + inside + " |\n+------+----------+\n",
		"aligned":                "USER   PASSWORD          AGE\nann    " + inside + "  2d\n",
		"a name of two words":    "user,db password,n\nann," + inside + ",1\n",
		"the last of many rows":  "id,api_token\n" + strings.Repeat("1,none\n", 500) + "2," + inside + "\n",
		"after other text":       "the table:\n\nuser,password\nann," + inside + "\n",
	} {
		if out, found := e.String(text); !found || strings.Contains(out, inside) {
			t.Errorf("%s: have %q", name, out)
		}
	}
	for name, text := range map[string]string{
		"a page's table":    "| Option | Password | Description |\n|---|---|---|\n| user | required | the user's name |\n",
		"prose":             "It takes a user, a password, and a token.\nann, then bob2xY9, and more\n",
		"another column":    "user,password,commit\nann,,9fceb02d0ae598e95dc970b74767f19372d61af8\n",
		"counts of tokens":  "model,tokens,cost\nbig-2,128000,0.15\n",
		"a list of names":   "password\ntoken\nsecret\n",
		"a line of its own": "user,password\n\nann," + inside + "\n",
		"a type in a table": "| Field | Token | Type |\n|---|---|---|\n| a | optional | uint64 |\n",
	} {
		if out, found := e.String(text); found {
			t.Errorf("%s: have %q", name, out)
		}
	}
}

// F-51: a table goes on where a stream was cut.
func TestATableInAStreamIsHiddenToItsEnd(t *testing.T) {
	var text strings.Builder
	text.WriteString("user,password\n")
	for i := range 20_000 {
		fmt.Fprintf(&text, "u%d,%s%d\n", i, inside, i)
	}
	text.WriteString("\nuser,note\nann," + inside + "\n")
	for _, size := range []int{1000, 32 << 10, 1 << 20} {
		var out bytes.Buffer
		w := redact.New().Writer(&out)
		for rest := text.String(); rest != ""; {
			n := min(size, len(rest))
			if _, err := w.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if shown := strings.Count(out.String(), inside); shown != 1 {
			t.Errorf("in pieces of %d bytes: %d values are shown, want the one after the table", size, shown)
		}
	}
}

// F-51: what stands below a secret name is hidden in a text, too. That holds for JSON that is not
// read as such, for YAML, and for the members of a key on lines of their own.
func TestSecretsInTheStructuresOfATextAreHidden(t *testing.T) {
	e := redact.New()
	coordinate := "qZ8vR3nT6kW1xB9mL4cD7hJ2qZ8vR3nT6kW1xB9mL4c" // as long as one of P-256
	for name, text := range map[string]string{
		"JSON":               `{"password":{"v":"` + inside + `"}}`,
		"JSON over lines":    "{\n  \"password\": {\n    \"v\": \"" + inside + "\"\n  }\n}",
		"JSON in a text":     `{"a":"{\"password\":{\"v\":\"` + inside + `\"}}"}`,
		"a list":             `password: ["x", "` + inside + `"]`,
		"YAML":               "password:\n  v: " + inside + "\nuser: ann\n",
		"YAML's list":        "tokens:\n- " + inside + "\n- x\n",
		"YAML, deeper":       "  secret:\n    data:\n      x: " + inside + "\n",
		"Ruby":               `password => { v => "` + inside + `" }`,
		"a key's member":     `{"crv":"P-256",` + "\n" + `"d": "` + coordinate + `",` + "\n" + `"kty":"EC"}`,
		"the member escaped": `{"a":"{\"d\":\"` + coordinate + `\"}"}`,
	} {
		var out strings.Builder
		w := e.Writer(&out)
		_, _ = w.Write([]byte(text))
		if err := w.Close(); err != nil || strings.Contains(out.String(), inside) {
			t.Errorf("%s: have %q, %v", name, out.String(), err)
		}
	}
	for name, text := range map[string]string{
		"a schema":         `"password": {"type": "string", "pattern": "^[A-Za-z0-9]{8,64}$", "description": "at least 8 characters"}`,
		"a form's rules":   "password: { required: true, minLength: 8, validate: value => isStrong2(value) }",
		"where it is kept": "secret:\n  name: prod-db-2\n  version: v1.2.3-beta4\n",
		"what follows it":  "password:\nuser: " + inside + "\n",
		"a point":          `{"d": "M10 20L30 40", "p": "` + inside + `"}`,
		"a service":        "auth:\n  image: registry.example.com/auth:1.2\n  ports:\n    - 8080:80\n",
	} {
		if out, found := e.String(text); found {
			t.Errorf("%s: have %q", name, out)
		}
	}
}

// Code is indented, and lists of it end with commas: neither makes columns.
func TestCodeIsNoTable(t *testing.T) { // F-51
	for _, text := range []string{
		"import (\n\t\"crypto/hmac\"\n\t\"crypto/sha256\"\n\t\"unicode/utf8\"\n)\n",
		"import {\n  hmac,\n  sha256,\n  utf8Encode,\n} from \"noble\"\n",
		"with:\n    hmac\n    sha256\n    utf8\n",
		"\ttokens := int64(searchResultTokens)\n",
	} {
		if have, _ := redact.New().String(text); have != text {
			t.Errorf("have %q, want %q", have, text)
		}
	}
}
