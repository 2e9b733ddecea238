package redact_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/nacre-dev/nacre/internal/redact"
)

// hidden holds texts, each with the part that must not survive.
var hidden = map[string]struct{ text, secret string }{
	"an AWS access key":                      {"id AKIAIOSFODNN7EXAMPLE.", "AKIAIOSFODNN7EXAMPLE"},
	"an AWS secret key":                      {"AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMI/K7MDENG"},
	"an AWS secret key in an ini file":       {"aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\n", "wJalrXUtnFEMI"},
	"a Google key":                           {"key=AIza" + strings.Repeat("A", 35), strings.Repeat("A", 35)},
	"a GitHub token":                         {"ghp_" + strings.Repeat("a", 36), "ghp_aaaa"},
	"a GitHub token after an escaped line":   {`{"log":"x\nghp_` + strings.Repeat("a", 36) + `"}`, "ghp_aaaa"},
	"a GitHub token after a percent escape":  {"q=%22ghp_" + strings.Repeat("a", 36), "ghp_aaaa"},
	"a GitHub token before a tag":            {"ghp_" + strings.Repeat("a", 36) + "<br>", "ghp_aaaa"},
	"a fine-grained GitHub token":            {"github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz", "11ABCDEFG0"},
	"a GitLab token":                         {"glpat-abcdefghij0123456789", "abcdefghij0123456789"},
	"a Slack token":                          {"xoxb-123456789012-123456789012-abcdefABCDEF", "abcdefABCDEF"},
	"a Slack hook":                           {"https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX", "B00000000"},
	"a Stripe key":                           {"sk_live_" + strings.Repeat("a", 24), "sk_live_aaa"},
	"an OpenAI project key":                  {"sk-proj-" + strings.Repeat("a", 40), "sk-proj-aaa"},
	"an old OpenAI key":                      {"OPENAI sk-" + strings.Repeat("aB3", 16), "sk-aB3"},
	"an Anthropic key":                       {"sk-ant-api03-" + strings.Repeat("a", 40), "api03-aaa"},
	"an npm token":                           {"//registry/:_authToken=npm_" + strings.Repeat("a1", 18), "npm_a1"},
	"a PyPI token":                           {"pypi-AgEIcHlwaS5vcmc" + strings.Repeat("x", 50), "AgEIcHlwaS5vcmc"},
	"a Hugging Face token":                   {"hf_" + strings.Repeat("aB", 17), "hf_aB"},
	"a JSON Web Token":                       {"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "eyJzdWIiOiIxIn0.c2ln"},
	"a private key":                          {"-----BEGIN RSA PRIVATE KEY-----\nMIIE...\n-----END RSA PRIVATE KEY-----", "MIIE"},
	"a private key in one line":              {`-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\n`, "MIIEvQ"},
	"a private key without its end":          {"-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIIrYSSNQFaA2Hwf1duRSxKtLYX5C\nAwEHoUQDQgAE", "MHcCAQEE"},
	"a PGP key":                              {"-----BEGIN PGP PRIVATE KEY BLOCK-----\nlQOYBF\n-----END PGP PRIVATE KEY BLOCK-----", "lQOYBF"},
	"an age key":                             {"AGE-SECRET-KEY-1" + strings.Repeat("Q", 58), "QQQQQQ"},
	"a bearer header":                        {"Authorization: Bearer abc.def-ghi==", "abc.def"},
	"a short bearer":                         {"bearer XYZ", "XYZ"},
	"a bearer with nothing in its middle":    {"Bea\u200brer abcdef", "abcdef"},
	"a token split by nothing":               {"ghp_" + strings.Repeat("a", 18) + "\u200b" + strings.Repeat("a", 18), "aaaa\u200baaaa"},
	"a basic header":                         {"Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"},
	"basic credentials alone":                {"curl -H 'X: Basic dXNlcjpwYXNz'", "dXNlcjpwYXNz"},
	"a password in a URL":                    {"postgres://u:p4ss@db.example.com/x", "p4ss"},
	"a password in a URL without a user":     {"redis://:p4ss@host/0", "p4ss"},
	"a short password in a URL":              {"amqp://user:pw@h:5672", ":pw@"},
	"a password with an @ in a URL":          {"mysql://u:p@ss@db/x", "p@ss"},
	"a password":                             {"password=hunter2secret", "hunter2secret"},
	"a password in YAML":                     {"db:\n  password: letmein\n", "letmein"},
	"a password with spaces in quotes":       {`password = "correct horse battery"`, "horse"},
	"a password in JSON text":                {`{"password": "hunter2"}`, "hunter2"},
	"a password in escaped JSON text":        {`{\"password\": \"hunter2\"}`, "hunter2"},
	"a password in a shell":                  {"export DB_PASSWORD='hunter2'", "hunter2"},
	"a password in bytes of Python":          {"password = b'Tr0ub4dor99'", "Tr0ub4dor99"},
	"a password with a type in Python":       {"password: str = 'Tr0ub4dor99'", "Tr0ub4dor99"},
	"a password with a type in TypeScript":   {"const password: string | null = \"Tr0ub4dor99\"", "Tr0ub4dor99"},
	"a password with a type in Go":           {"var password string = `Tr0ub4dor99`", "Tr0ub4dor99"},
	"a password with a type in Rust":         {"let password: &str = \"Tr0ub4dor99\";", "Tr0ub4dor99"},
	"a password with a quote in it":          {`password="abc\"DEF123ghi"`, "DEF123ghi"},
	"a password behind bold letters":         {"**Password:** Tr0ub4dor99", "Tr0ub4dor99"},
	"a password behind a bold name":          {"**Password**: `Tr0ub4dor99`", "Tr0ub4dor99"},
	"a password in a sentence":               {"The password is Tr0ub4dor99", "Tr0ub4dor99"},
	"a password in SQL":                      {"CREATE USER 'a'@'h' IDENTIFIED BY 'Tr0ub4dor99'", "Tr0ub4dor99"},
	"a password in SQL without quotes":       {"CREATE USER ann IDENTIFIED BY Tr0ub4dor99;", "Tr0ub4dor99"},
	"a PASS in a list of YAML":               {"env:\n  PASS: Tr0ub4dor99\n", "Tr0ub4dor99"},
	"a password before more Chinese":         {"密码：Tr0ub4dor99，请保管", "Tr0ub4dor99"},
	"a password behind its option":           {"mysqldump -u root -pTr0ub4dor99 db", "Tr0ub4dor99"},
	"a password in Russian":                  {"Пароль: Tr0ub4dor99", "Tr0ub4dor99"},
	"a password in Chinese":                  {"密码：Tr0ub4dor99", "Tr0ub4dor99"},
	"a password in French":                   {"mot de passe : Tr0ub4dor99", "Tr0ub4dor99"},
	"a password in XML with an attribute":    {`<wsse:Password Type="#Text">Tr0ub4dor99</wsse:Password>`, "Tr0ub4dor99"},
	"a key in a resource of XML":             {`<string name="api_key">4f9a8b7c6d5e</string>`, "4f9a8b7c6d5e"},
	"a password in properties of XML":        {`<entry key="db.password">Tr0ub4dor99</entry>`, "Tr0ub4dor99"},
	"a password in a property list":          {"<key>password</key>\n\t<string>Tr0ub4dor99</string>", "Tr0ub4dor99"},
	"a password of two letters' name":        {"user=bob pw=tr0ub4dor99", "tr0ub4dor99"},
	"a password of a wireless network":       {`psk="tr0ub4dor99"`, "tr0ub4dor99"},
	"a digest header":                        {`Authorization: Digest username="x", response="6629fae49393a05397450978507c4ef1"`, "6629fae49393"},
	"a phone number without spaces":          {"tel:+15551234567", "5551234567"},
	"a wallet's words":                       {"Seed phrase: legal winner thank year wave sausage worth useful legal winner thank yellow", "thank yellow"},
	"a password in Go":                       {`password := "hunter2"`, "hunter2"},
	"a password in Ruby":                     {`:password => "hunter2"`, "hunter2"},
	"a token":                                {"token: 9f8e7d6c5b4a39281706", "9f8e7d6c"},
	"an access token in a URL":               {"https://h/x?access_token=abcdef012345", "abcdef012345"},
	"a client secret":                        {"client_secret=abcd1234efgh5678", "abcd1234"},
	"an API key":                             {"api_key=ABCDEFGH12345678", "ABCDEFGH"},
	"an API key of letters":                  {"apikey: abcdefgh", "abcdefgh"},
	"an API token after a space":             {"api-token ABCDEFGHIJ", "ABCDEFGHIJ"},
	"an access key of letters":               {"access-key=abcdefghij", "abcdefghij"},
	"an API key in JSON text":                {`{"api_key": "abcdef0123456789"}`, "abcdef0123456789"},
	"an API key header":                      {"X-Api-Key: abcdef0123456789", "abcdef0123456789"},
	"a cookie that is set":                   {"Set-Cookie: session=abcdef0123456789; Path=/", "abcdef0123456789"},
	"cookies":                                {"Cookie: a=1; sid=abcdef0123456789\r\n", "abcdef0123456789"},
	"a signature in a URL":                   {"https://x.blob/y?sv=1&sig=abcdefgh12345678%3D", "abcdefgh12345678"},
	"an e-mail address":                      {"mail alice@example.com now", "alice@example"},
	"an address of many parts":               {"a.b+c_d@sub.example.co.uk", "a.b+c_d@sub"},
	"an address beyond ASCII":                {"jörg@exämple.de", "jörg"},
	"an address with a wide @":               {"user＠example.com", "user"},
	"a telephone number":                     {"call +1-555-123-4567", "555-123"},
	"one in brackets":                        {"call (555) 123-4567", "123-4567"},
	"one with dots":                          {"call 020.7946.0958", "7946"},
	"a social security number":               {"ssn 123-45-6789", "123-45"},
	"one with spaces":                        {"ssn 123 45 6789", "123 45"},
	"a card":                                 {"card 4111111111111111", "4111111111111111"},
	"a card in groups":                       {"card 4111 1111 1111 1111", "4111 1111"},
	"an American Express card":               {"card 3782-822463-10005", "822463"},
	"a bank account":                         {"DE89370400440532013000", "DE8937"},
	"a bank account in groups":               {"IBAN GB82 WEST 1234 5698 7654 32.", "1234 5698"},
	"two addresses":                          {"two a@b.co and c@d.co", "c@d.co"},
	"a secret right after another":           {"password=hunter2,ghp_" + strings.Repeat("a", 36), "ghp_aaa"},
	"the second of two headers":              {"Bearer abcdef123 Bearer abcdef456", "abcdef456"},
	"a key in a unified diff":                {"+API_KEY=abcdef0123456789\n-API_KEY=x", "abcdef0123456789"},
	"a secret on the first of many lines":    {"SECRET_KEY=django-insecure-3$x!\nDEBUG=1", "insecure-3"},
	"a number in a name":                     {"password2=hunter22", "hunter22"},
	"a password that is called like its key": {"password=password123", "password123"},
	"a login behind an option":               {"docker --debug login -u ann -p hunter22x", "hunter22x"},
	"a login in a container":                 {"docker run --rm -it app az acr login -u ann -p hunter22x", "hunter22x"},
	"a letter of many digits before an IBAN": {"to: DE89 3704 0044 0532 0130 00", "0532 0130"},
}

// D-15, K-15
func TestASecretDoesNotSurvive(t *testing.T) {
	e := redact.New()
	for name, test := range hidden {
		t.Run(name, func(t *testing.T) {
			out, found := e.String(test.text)
			if !found || strings.Contains(out, test.secret) || !strings.Contains(out, redact.Marker) {
				t.Errorf("have %q", out)
			}
			again, _ := e.String(out)
			if strings.Count(again, redact.Marker) < strings.Count(out, redact.Marker) {
				t.Errorf("again %q", again)
			}
		})
	}
}

// What is not secret stays, to the byte: a redacted diff cannot be applied.
func TestWhatLooksAlikeStays(t *testing.T) {
	e := redact.New()
	for name, text := range map[string]string{
		"text":                         "plain text, with nothing in it",
		"a short key":                  "access_key=short",
		"an IP address":                "10.0.0.1",
		"a date":                       "2024-01-15",
		"a version":                    "v1.2.3-4567",
		"nine digits":                  "123456789",
		"prose on bearers":             "Bearer of bad news",
		"prose on tokens":              "a bearer token is required; Bearer authentication",
		"prose on passwords":           "The password: please ask your administrator",
		"prose on API keys":            "An API key is needed; api key management",
		"prose on basics":              "Basic authentication, basic understanding",
		"a UUID":                       "550e8400-e29b-41d4-a716-446655440000",
		"a commit":                     "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
		"a digest":                     "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"a go.sum line":                "golang.org/x/net v0.56.0 h1:2K3LfZ3d6TtYhxzbJrYbC2Cm5mB3bSmHX1Wn3M7NHPk=",
		"a lock file":                  `"integrity": "sha512-v2kDEe57lecTulaDIuNTPy3Ry4gLGJ6Z1O3vE1krgXZNrsQ+LFTGHVxVjcXPs17LhbZVGedAJv8XZ1tvj5FvSg=="`,
		"an image":                     "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
		"base64 of JSON":               "eyJhIjoxLCJiIjoyfQ==",
		"a time in nanoseconds":        "1772366400123456789",
		"a time in milliseconds":       "ts=1772366400123",
		"a snowflake":                  "1234567890123456789",
		"a card number that is none":   "4111111111111112",
		"a card of one digit":          "4444444444444444 0000000000000000",
		"a table of numbers":           "123 45 6789",
		"a phone-like version":         "1.234.5678",
		"a Go module":                  "github.com/pkg/errors@v0.9.1",
		"an npm package":               "lodash@4.17.21 @types/node@20.1.0",
		"a git remote":                 "git@github.com:nacre-dev/nacre.git",
		"a user in a URL":              "ssh://me@host.example.com/x",
		"a URL with a port":            "http://127.0.0.1:3128/x?y=z@w",
		"a placeholder in a URL":       "postgres://user:${PASSWORD}@db/x",
		"a systemd unit":               "getty@tty1.service",
		"a decorator":                  "@app.route('/x')",
		"a variable":                   "password=$DB_PASSWORD token=${TOKEN}",
		"a template":                   "password: {{ .Values.password }} secret: <your secret>",
		"a workflow":                   "token: ${{ secrets.GITHUB_TOKEN }}",
		"a type":                       "password: string; token: Token; secret?: boolean",
		"a call":                       "password = getPassword() token := lexer.next()",
		"an environment lookup":        `apiKey = process.env.API_KEY; key = os.environ["API_KEY"]`,
		"a field":                      "password = config.password; secret = cfg.Secret",
		"a parser":                     "unexpected token: identifier; token = nextToken",
		"counts of tokens":             `{"max_tokens": 4096, "total_tokens": 12345678}`,
		"the token of a page":          "next_page_token=CiAKGjBpNDd2Nmp2Zml2cXRwYjBpOXA",
		"the working directory":        "PWD=/home/ann/project OLDPWD=/home/ann",
		"credentials in fetch":         "credentials: 'same-origin'",
		"a stylesheet":                 ".sk-circle-fade-dot-animation-delay { }",
		"a name that ends like a form": "task-abcdefghijklmnopqrstuvwxyz0123456789",
		"a public key":                 "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----",
		"a certificate":                "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUJfYw\n-----END CERTIFICATE-----",
		"prose on private keys":        "a file that begins with -----BEGIN PRIVATE KEY----- is one. Do not commit it.",
		"what was redacted":            "password=[REDACTED] Bearer [REDACTED]",
		"stars":                        "password: ******** secret=xxxxxxxx",
		"words with accents":           "Das Passwort fehlt. “Quoted” – naïve café",
		"Chinese":                      "密码 是 什么",
		"a hex colour":                 "#4f46e5 0xdeadbeef",
		"an issue":                     "see #12345678 and PR-555-123",
		"a cookie in prose":            "Cookie: none needed",
		"a key of an index":            "primary key: id; key=value; keys: [a, b]",
		"ports of a container":         "docker run --name login -p 127.0.0.1:8080:80 app",
		"ports of a container's host":  "docker run -d --name login -p localhost:8080:80 app",
		"ports of an image":            "docker run login -p 8080:80/tcp",
	} {
		t.Run(name, func(t *testing.T) {
			if out, found := e.String(text); found || out != text {
				t.Errorf("have %q", out)
			}
		})
	}
}

// D-15, K-15: the same engine on structures.
func TestJSONIsRedactedInPlace(t *testing.T) {
	tests := map[string]struct{ in, out, paths string }{
		"nothing":                    {`{"a":1.0,"b":[1e5,-0.10,"x"],"c":null}`, `{"a":1.0,"b":[1e5,-0.10,"x"],"c":null}`, ""},
		"white space":                {" {\n \"a\" : 1 ,\t\"a\": 2 }\r\n", " {\n \"a\" : 1 ,\t\"a\": 2 }\r\n", ""},
		"a name in another case":     {`{"Email":"x","name":"n"}`, `{"Email":"[REDACTED]","name":"n"}`, "Email"},
		"a name in another spelling": {`{"card-number":1,"cvv":123,"socialSecurityNumber":"x"}`, `{"card-number":"[REDACTED]","cvv":"[REDACTED]","socialSecurityNumber":"[REDACTED]"}`, "card-number cvv socialSecurityNumber"},
		"a list under a name":        {`{"password":["a",["b",null,true]]}`, `{"password":["[REDACTED]",["[REDACTED]",null,true]]}`, "password[0] password[1][0]"},
		"an object under a name":     {`{"secret":{"value":"abc","note":"n"}}`, `{"secret":{"value":"[REDACTED]","note":"n"}}`, "secret.value"},
		"objects in a list under it": {`{"phone":[{"type":"home","value":"5551234"},[{"value":7}]]}`, `{"phone":[{"type":"home","value":"[REDACTED]"},[{"value":"[REDACTED]"}]]}`, "phone[0].value phone[1][0].value"},
		"an option and its value":    {`["run","--password","letmein99","--port","letmein99","--token"]`, `["run","--password","[REDACTED]","--port","letmein99","--token"]`, "[2]"},
		"a wallet's words":           {`{"mnemonic":"legal winner thank year wave sausage worth useful legal winner thank yellow","seedPhrase":"ask me"}`, `{"mnemonic":"[REDACTED]","seedPhrase":"ask me"}`, "mnemonic"},
		"a name for several":         {`{"passwords":["abc"],"secrets":12,"phone_numbers":[{"value":"5551234"}]}`, `{"passwords":["[REDACTED]"],"secrets":12,"phone_numbers":[{"value":"[REDACTED]"}]}`, "passwords[0] phone_numbers[0].value"},
		"a name that looks like one": {`{"ｐａｓｓｗｏｒｄ":"abc","pass\u200bword":"abc","pässword":"abc"}`, `{"ｐａｓｓｗｏｒｄ":"[REDACTED]","pass\u200bword":"[REDACTED]","pässword":"abc"}`, "ｐａｓｓｗｏｒｄ pass\u200bword"},
		"a schema with such a name":  {`{"properties":{"password":{"type":"string","description":"the new one"}}}`, `{"properties":{"password":{"type":"string","description":"the new one"}}}`, ""},
		"whether there is one":       {`{"password":true,"secret":null,"email":""}`, `{"password":true,"secret":null,"email":""}`, ""},
		"a token by its look":        {`{"token":"9f8e7d6c5b4a39281706","next_page_token":"9f8e7d6c5b4a39281706"}`, `{"token":"[REDACTED]","next_page_token":"9f8e7d6c5b4a39281706"}`, "token"},
		"a token that is none":       {`{"token":"identifier","tokens":12345678901}`, `{"token":"identifier","tokens":12345678901}`, ""},
		"a value in rows":            {`[{"a":"x@y.co"},{"a":"b"}]`, `[{"a":"[REDACTED]"},{"a":"b"}]`, "[0].a"},
		"a text alone":               {`"x@y.co"`, `"[REDACTED]"`, ""},
		"a key":                      {`{"AKIAIOSFODNN7EXAMPLE":1,"b":{"x@y.co":{"c":"z@y.co"}}}`, `{"[REDACTED]":1,"b":{"[REDACTED]":{"c":"[REDACTED]"}}}`, "[REDACTED] b.[REDACTED] b.[REDACTED].c"},
		"a name beside its value":    {`[{"name":"DB_PASSWORD","value":"letmein99"},{"name":"port","value":"letmein99"}]`, `[{"name":"DB_PASSWORD","value":"[REDACTED]"},{"name":"port","value":"letmein99"}]`, "[0].value"},
		"two keys":                   {`{"a@y.co":1,"b@y.co":2,"[REDACTED]":3}`, `{"[REDACTED]":1,"[REDACTED] 2":2,"[REDACTED] 3":3}`, "[REDACTED] [REDACTED] 2 [REDACTED] 3"},
		"escapes":                    {`{"a":"\u0041KIAIOSFODNN7EXAMPLE \"\\\n"}`, `{"a":"[REDACTED] \"\\\n"}`, "a"},
		"a hidden character":         {`{"a":"Bea\u200brer abcdef"}`, "{\"a\":\"Bea\u200brer [REDACTED]\"}", "a"},
		"a card as a number":         {`{"n":4111111111111111,"m":4111111111111112}`, `{"n":"[REDACTED]","m":4111111111111112}`, "n"},
		"control characters":         {`{"a":"x@y.co\u0000\u001f"}`, `{"a":"[REDACTED]\u0000\u001f"}`, "a"},
		"a deep one":                 {`[[[{"a":[["x@y.co"]]}]]]`, `[[[{"a":[["[REDACTED]"]]}]]]`, "[0][0][0].a[0][0]"},
	}
	e := redact.New()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out, paths, err := e.JSON([]byte(test.in))
			if err != nil || string(out) != test.out {
				t.Errorf("have %s %v\nwant %s", out, err, test.out)
			}
			if have := strings.Join(paths, " "); have != test.paths {
				t.Errorf("paths %s\nwant  %s", have, test.paths)
			}
		})
	}
}

func TestJSONThatIsNoneIsRefused(t *testing.T) {
	e := redact.New()
	for name, raw := range map[string]string{
		"nothing": "", "two values": "1 2", "an open object": `{"a":1`, "an open text": `"a`, "a bare word": "nope",
		"a comma too many": `[1,]`, "a key without a value": `{"a"}`, "a leading zero": "01", "a lone minus": "-",
		"bad UTF-8": "\"\xff\"", "a control character": "\"\n\"", "an unknown escape": `"\x"`, "half an escape": `"\u00"`,
		"too deep": strings.Repeat("[", redact.MaxDepth+1) + strings.Repeat("]", redact.MaxDepth+1),
	} {
		if out, _, err := e.JSON([]byte(raw)); err == nil {
			t.Errorf("%s: have %s", name, out)
		}
	}
	deepest := strings.Repeat("[", redact.MaxDepth) + strings.Repeat("]", redact.MaxDepth)
	if _, _, err := e.JSON([]byte(deepest)); err != nil {
		t.Errorf("the deepest: %v", err)
	}
}

func TestPathsAreBounded(t *testing.T) {
	raw := `[` + strings.Repeat(`{"password":"x"},`, 200) + `{"` + strings.Repeat("a", 400) + `":"x@y.co"}]`
	_, paths, err := redact.New().JSON([]byte(raw))
	if err != nil || len(paths) != redact.MaxPaths+1 || paths[redact.MaxPaths] != "+137 more" {
		t.Errorf("have %d paths, the last %q, %v", len(paths), paths[len(paths)-1], err)
	}
	_, paths, _ = redact.New().JSON([]byte(`{"` + strings.Repeat("a", 400) + `":"x@y.co"}`))
	if len(paths) != 1 || len(paths[0]) > 300 {
		t.Errorf("a path of %d bytes", len(paths[0]))
	}
}

func TestNothingIsAllocatedWhereNothingIsFound(t *testing.T) {
	e := redact.New()
	text := strings.Repeat("GET /api/v1/items?page=3 200 12ms user=ann id=550e8400-e29b-41d4-a716-446655440000\n", 20)
	if n := leastAllocations(func() { e.String(text) }); n > 0 {
		t.Errorf("String: %v allocations", n)
	}
	raw := []byte(`[{"id":"INV-1","amount":10.5,"note":"nothing here","tags":["a","b"]},{"id":"INV-2","amount":11,"note":"nor here"}]`)
	if n := leastAllocations(func() { _, _, _ = e.JSON(raw) }); n > 0 {
		t.Errorf("JSON: %v allocations", n)
	}
}

// leastAllocations is what f needs at best: a collection, and the race detector
// by chance, empty the pools between two runs, which says nothing about f.
func leastAllocations(f func()) float64 {
	least := testing.AllocsPerRun(1, f)
	for range 100 {
		least = min(least, testing.AllocsPerRun(1, f))
	}
	return least
}

// A limit on a secret's length is in bytes; what is shown is in characters.
func TestNoCharacterIsCutInTwo(t *testing.T) {
	e := redact.New()
	for pad := range 4 {
		for name, text := range map[string]string{
			"a long local part": strings.Repeat("x", pad) + strings.Repeat("ö", 60) + "@example.com",
			"a long domain":     "a@" + strings.Repeat("x", pad) + strings.Repeat("ö", 200) + ".com a@b." + strings.Repeat("ö", 200),
			"a long password":   "password='" + strings.Repeat("x", pad) + strings.Repeat("ö", 8000),
			"a long cookie":     "Cookie: a=" + strings.Repeat("x", pad) + strings.Repeat("ö", 8000),
			"a long user":       "x://u:" + strings.Repeat("x", pad) + strings.Repeat("ö", 252) + "@h",
		} {
			if out, _ := e.String(text); !utf8.ValidString(out) {
				t.Errorf("%s, %d: cut", name, pad)
			}
		}
	}
}

// D-15: names below each other are no token that was broken over lines, though the
// first begins like one.
func TestAListingIsNoToken(t *testing.T) {
	listing := "patch\npathchk\npdb3\npdb3.11\npeekfd\nperf\nperl\nperl5.36-x86_64-linux-gnu\nperl5.36.0\nperlbug\nperldoc\nperlivp\npg_dump\n"
	for _, text := range []string{listing, strings.ReplaceAll(listing, "\n", `\n`), "main\npatch-1\nfeature-22\npatient-records\n" + listing} {
		if clean, found := redact.New().String(text); clean != text {
			t.Errorf("%v: have %q", found, clean)
		}
	}
}

// P-04, K-15: a text that was clean in one row is looked at again where what stands around it
// makes it a secret.
func TestWhatWasCleanInOneRowIsASecretInAnother(t *testing.T) {
	for name, rows := range map[string]string{
		"below the name of a secret":      `[{"note":"qZ8vR3nT6kW1"},{"note":"qZ8vR3nT6kW1"},{"password":{"note":"qZ8vR3nT6kW1"}}]`,
		"as what a label names":           `[{"name":"city","value":"qZ8vR3nT6kW1"},{"name":"city","value":"qZ8vR3nT6kW1"},{"name":"password","value":"qZ8vR3nT6kW1"}]`,
		"under another name at its place": `[{"note":"qZ8vR3nT6kW1"},{"note":"qZ8vR3nT6kW1"},{"password":"qZ8vR3nT6kW1"}]`,
		"within a private key":            `[{"note":"TUlJRXZRSUJBREFO"},{"note":"TUlJRXZRSUJBREFO"},{"note":"-----BEGIN PRIVATE KEY-----"},{"note":"TUlJRXZRSUJBREFO"},{"note":"-----END PRIVATE KEY-----"}]`,
	} {
		out, paths, err := redact.New().JSON([]byte(rows))
		if err != nil || len(paths) == 0 || !strings.Contains(string(out), redact.Marker) || !strings.HasPrefix(string(out), rows[:30]) {
			t.Errorf("%s: %s, %v, %v", name, out, paths, err)
		}
	}
}

// P-04: a text that comes again and again is let through, and a secret that does never.
func TestWhatComesAgainIsJudgedAlike(t *testing.T) {
	secret := "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
	row := `{"city":"Berlin","note":"` + secret + `","due":"2026-03-01"}`
	out, paths, err := redact.New().JSON([]byte("[" + row + "," + row + "," + row + "]"))
	if err != nil || len(paths) != 3 || strings.Contains(string(out), secret) || strings.Count(string(out), `"city":"Berlin"`) != 3 {
		t.Errorf("%s, %v, %v", out, paths, err)
	}
}
