package redact_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/redact"
)

// alikes make texts that look like secrets and are none.
func alikes() map[string]func(s source, i int) string {
	pick := func(of ...string) func(s source, i int) string {
		return func(_ source, i int) string { return of[i%len(of)] }
	}
	digest := func(s source) string {
		sum := sha256.Sum256([]byte(s.from(letters, 8)))
		return hex.EncodeToString(sum[:])
	}
	binary := func(s source, n int) string {
		raw := make([]byte, n)
		for i := range raw {
			raw[i] = byte(s.IntN(256))
		}
		return base64.StdEncoding.EncodeToString(raw)
	}
	return map[string]func(s source, i int) string{
		"an option that is no password": pick("mkdir -p build/out1", "docker run -p 8080:80 app2", "ssh login -p 2222 host1", "cp -a src1 dst2",
			"grep -w word1 file2", "git add -p main2.go", "redis-cli -p 6379 ping", "docker login -u ann -p $DOCKER_PASS", "npm login && mkdir -p dist2"),
		"a typed name": pick(`password: str = Field(min_length=8)`, `password: string = ""`, `password: string;`, `let token: Token = "none"`,
			`func login(password string, port2 int)`, `password string = "password"`, `secret: Secret = load("db1")`),
		"markup": pick(`<label for="password">Kennwort:</label>`, `<input type="password" name="pw2">`, `<th key="password">Passwort</th>`,
			"<key>secret</key>\n<true/>", `<token type="LiteralNumberInteger2"/>`, `<Password field="user-pass2">`, `<password type="x"/> <b2>ok12345</b2>`, `<input name="password"> page2`),
		"a test's line":           pick("PASS: test_login2", "PASS: tests/foo-1.sh\nFAIL: tests/foo-2.sh", "ok\nPASS: TestSomethingLong123", "--- PASS: TestFoo123 (0.01s)", "x\n    --- PASS: TestFoo/case_1_2 (0.00s)"),
		"a name of something":     pick("The record is identified by UUIDv4.", "Users are identified by Sha256Hash of it", "each row is identified by: userId2"),
		"what a password is like": pick("密码：至少8个字符", "パスワード: 8文字以上", "Пароль: минимум 8 символов"),
		"no such option":          pick("gcc -pthread2 a.c", "mysql -u root -p db1", "mysqldump -P3306 db2", "node -pe 1+1+x3", "docker run --name mysql -p3306:3306 -d mysql:8.0"),
		"no phone number":         pick("+1234567890 s", "a\n+12345678901\n", "x+12345678901", "+01234567890", "maxTimestamp = +253402300799", `format(1234, "+b"), "+10011010010"`, "+123456789012"),
		"no wallet": pick("mnemonic: a word that helps to recall what it stands for in the end", "seed phrase: ask your admin for it",
			"mnemonic: one two three four five six seven eight nine ten eleven"),
		"words on a password": pick("the password is 8 characters long", "The password is required", "the secret is out", "**Password:** required"),
		"a call for who asks": pick(`setBasicAuth(user, password)`, `auth=(user, password)`, `BasicAuth("user", os.environ["PW"])`, `auth=("user", "password")`),
		"a UUID":              func(s source, _ int) string { return `{"id": "` + s.uuid() + `"}` },
		"a request":           func(s source, _ int) string { return "X-Request-Id: " + s.uuid() + "\r\n" },
		"a commit":            func(s source, _ int) string { return "commit " + s.from(hexes, 40) + "\nAuthor: ann\n" },
		"a short commit":      func(s source, _ int) string { return s.from(hexes, 7) + " fix the token parser" },
		"a digest":            func(s source, _ int) string { return "sha256:" + digest(s) },
		"a checksum":          func(s source, _ int) string { return digest(s) + "  dist/app-1.2.3.tar.gz" },
		"an md5":              func(s source, _ int) string { return "ETag: \"" + s.from(hexes, 32) + "\"" },
		"an integrity":        func(s source, _ int) string { return `"integrity": "sha512-` + binary(s, 64) + `",` },
		"a go.sum":            func(s source, _ int) string { return "golang.org/x/net v0.5.0 h1:" + binary(s, 32) },
		"a ULID":              func(s source, _ int) string { return "01" + s.from("0123456789ABCDEFGHJKMNPQRSTVWXYZ", 24) },
		"a colour": func(s source, _ int) string {
			return "color: #" + s.from(hexes, 6) + "; background: #" + s.from(hexes, 8)
		},
		"an image": func(s source, _ int) string { return "data:image/png;base64,iVBORw0KGgo" + binary(s, 120) },
		"a public key": func(s source, _ int) string {
			return "-----BEGIN PUBLIC KEY-----\n" + wrap(binary(s, 91), 64) + "\n-----END PUBLIC KEY-----"
		},
		"an ssh key": func(s source, _ int) string {
			return "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + s.from(base64s, 43) + " ann@laptop"
		},
		"a certificate": func(s source, _ int) string {
			return "-----BEGIN CERTIFICATE-----\nMIID" + wrap(binary(s, 400), 64) + "\n-----END CERTIFICATE-----"
		},
		"an order": func(s source, _ int) string {
			return "order 4111111111111" + []string{"112", "119", "203", "308", "555"}[s.IntN(5)] + " shipped"
		},
		"a number": func(s source, _ int) string { return "invoice 2026-" + s.from(figures, 8) + " total 1,234.56" },
		"a time":   func(s source, _ int) string { return fmt.Sprintf(`{"ts": 17723664%08d, "took": 12}`, s.IntN(1e8)) },
		"a placeholder": pick("API_KEY=YOUR_API_KEY", `"api_key": "YOUR_API_KEY_HERE"`, "token: <your-token>", "password=xxxxxxxx", "password: changeme",
			"apiKey: 'your-api-key'", "secret = \"...\"", "AUTH_TOKEN=REPLACE_ME", "SECRET_KEY=xxxx-xxxx-xxxx-xxxx", "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
			"sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "export OPENAI_API_KEY=sk-...", "AKIAXXXXXXXXXXXXXXXX", "password: '********'", "token: \"<insert token here>\"",
			"GITHUB_TOKEN=ghp_your_token_here", "api_key: sk_test_your_key_here", "password: \"[your password]\"", "secret: TODO", "client_secret: 00000000-0000-0000-0000-000000000000"),
		"a variable": pick("TOKEN=${TOKEN}", "password: $DB_PASSWORD", "token: ${{ secrets.GITHUB_TOKEN }}", "api_key = os.environ['API_KEY']", "const key = process.env.API_KEY;",
			"password={{ .Values.db.password }}", "-e DB_PASSWORD=\"$DB_PASSWORD\"", "password: !vault |", "secret: vault:secret/data/app#password", "apiKey: env(API_KEY)",
			"token: ((github-token))", "password = var.db_password", "password=%DB_PASSWORD%", "Authorization: Bearer ${TOKEN}", "Authorization: Bearer <token>", "Authorization: Bearer $TOKEN",
			"https://user:${PASSWORD}@example.com/", "https://user:<password>@example.com", "https://$USER:$PASS@host/x", "password: op://vault/item/password"),
		"a type": pick("password: string", "function login(user: string, password: string): Promise<Token>", "func Login(user, password string) error", "token: Token;",
			"secret?: boolean", "password: Optional[str] = None", "def auth(self, password: str, token: str = None):", "private String password;", "apiKey: string | undefined",
			"let password: SecretString = read()?;", "password VARCHAR(255) NOT NULL", "password: { type: 'string', required: true }", "token: CancellationToken", "pub api_key: Option<String>,",
			"interface Props { accessToken: string; refreshToken: string }", "token_type: bearer", "secretKeyRef:\n  name: db\n  key: password\n"),
		"code": pick("if password == confirmPassword {", "token := lexer.Next()", "password = input(\"Password: \")", "password = getpass.getpass()", "return hash(password, salt)",
			"this.password = password;", "user.password = bcrypt.hashSync(password, 10);", "token = tokenizer.tokenize(text)", "const { token } = await res.json()", "setPassword(event.target.value)",
			"headers['Authorization'] = `Bearer ${token}`", "\"Authorization\": \"Bearer \" + token", "assert token.type == TokenType.IDENTIFIER", "password_hash = hash_password(password)",
			"secret := os.Getenv(\"SECRET\")", "keys := make(map[string]string, 16)", "for _, token := range tokens {", "token?.accessToken ?? refreshToken()",
			"<input type=\"password\" name=\"password\" placeholder=\"Password\">", "<label for=\"password\">Password</label>", "password_field = page.locator('#password')"),
		"docs": pick("Set the password in the settings page.", "The token expires after 3600 seconds.", "Use `Authorization: Bearer <token>` in each request.", "Basic authentication is not supported.",
			"--password string   the password of the user", "--token TOKEN   API token (env: API_TOKEN)", "Passwords must have at least 12 characters.", "API keys can be rotated under Settings > API.",
			"secret: the shared secret (required)", "password (string): the user's password", "| token | string | yes | the access token |", "An invalid token: unexpected end of input",
			"Error: invalid password: must contain 8 characters", "pass: 12, fail: 3, skipped: 4", "token limit: 200000 tokens, max_tokens=4096", "author: maintainer12",
			"Usage: login [--password-file FILE] [--token-stdin]", "tests pass: 120/120 in 3.2s"),
		"minified": pick(`!function(e,t){"object"==typeof exports?module.exports=t():e.token=t()}(this,function(){return e.password||t.secret});`,
			`var a=function(e){return e.pass=!0,t.push({key:n,secret:!1})};`, `n.d(t,{token:()=>r,password:()=>o});`, `e.exports={apiKey:t.apiKey,authToken:n.authToken||null}`),
		"a version": pick("v1.2.3-beta.4+build.567", "go1.26.0", "image: registry.example.com/app:2026.03.01-abcdef1", "\"typescript\": \"^5.4.0-dev.20240301\"", "linux/amd64 5.15.0-1053-generic"),
		"a path":    pick("/usr/share/secrets/password.txt", "/run/secrets/db_password", "PASSWORD_FILE=/run/secrets/db", "secret: /etc/app/secret.key", "~/.ssh/id_ed25519.pub", "node_modules/@types/token/index.d.ts", "src/auth/token/TokenProvider2.tsx", "C:\\Users\\ann\\Documents\\passwords.kdbx"),
		"names":     pick("DATABASE_PASSWORD", "AWS_SECRET_ACCESS_KEY", "STRIPE_SECRET_KEY, STRIPE_PUBLISHABLE_KEY", "env: [API_KEY, API_SECRET, DB_PASS]", "required: [password, token, secret]", `["password", "api_key", "secret"]`, `["token","refresh_token","id_token"]`),
		"lorem":     pick("Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor", "The quick brown fox jumps over the lazy dog.", "Loremipsumdolorsitametconsecteturadipiscingelitseddoeiusmodtempor"),
		"base64": func(s source, _ int) string {
			return base64.StdEncoding.EncodeToString([]byte("Lorem ipsum dolor sit amet " + s.word() + " consectetur"))
		},
		"base64 of JSON": func(s source, _ int) string {
			return base64.StdEncoding.EncodeToString([]byte(`{"page":3,"after":"` + s.uuid() + `"}`))
		},
		"hex of text": func(s source, _ int) string {
			return hex.EncodeToString([]byte("hello " + s.word() + " and " + s.word()))
		},
		"a URL": func(s source, i int) string {
			return "https://example.com/a/b?q=" + s.word() + "&id=" + s.from(figures, 8) + "&sha=" + s.from(hexes, 40)
		},
		"an encoded URL": func(s source, _ int) string {
			return "https://example.com/?u=https%3A%2F%2Fexample.org%2F" + s.word() + "%3Fpage%3D2"
		},
		"a publishable key": func(s source, _ int) string { return "pk_" + "live_" + s.mixed(alnums, 24) },
		"an AWS id": func(s source, _ int) string {
			return "arn:aws:iam::" + s.from(figures, 12) + ":role/deploy-" + s.word()
		},
		"an S3 path": func(s source, _ int) string {
			return "s3://bucket/" + s.uuid() + "/" + s.from(alnums, 24) + "/data.parquet"
		},
		"a MAC address": func(s source, _ int) string {
			return "link/ether 52:54:00:" + s.from(hexes, 2) + ":" + s.from(hexes, 2) + ":" + s.from(hexes, 2)
		},
		"a fingerprint": func(s source, _ int) string { return "SHA256:" + s.from(base64s, 43) },
		"hex with colons": func(s source, _ int) string {
			return "SHA1 Fingerprint=" + strings.TrimRight(each(s.from("\x80\x91\xa3\xff\x01", 20), "%02X:"), ":")
		},
		"an object id": func(s source, _ int) string { return `{"_id": {"$oid": "` + s.from(hexes, 24) + `"}}` },
		"a random name": func(s source, _ int) string {
			return "pod/app-" + s.from(lowers+figures, 10) + "-" + s.from(lowers+figures, 5) + " Running"
		},
		"a slug":      func(s source, _ int) string { return "sk-" + s.word() + "-" + s.word() + "-" + s.word() },
		"a cache key": func(s source, _ int) string { return "cache key: node-" + digest(s) },
		"a page":      func(s source, _ int) string { return `{"nextPageToken": "` + s.mixed(urlSafe, 32) + `"}` },
		"a nonce": func(s source, _ int) string {
			return "<script nonce=\"" + s.from(base64s, 22) + "==\" src=\"/app." + s.from(hexes, 8) + ".js\">"
		},
		"coordinates": func(s source, _ int) string { return "52.520008, 13.404954 and 37." + s.from(figures, 6) },
		"a trace": func(s source, _ int) string {
			return "traceparent: 00-" + s.from(hexes, 32) + "-" + s.from(hexes, 16) + "-01"
		},
		"bytes": func(s source, _ int) string {
			return "00000000: 8950 4e47 0d0a 1a0a 0000 000d 4948 4452  .PNG........IHDR"
		},
	}
}

// D-15: at most 1 % of what only looks like a secret is taken for one.
func TestFalsePositives(t *testing.T) {
	e := redact.New()
	wrong, total := 0, 0
	kinds := alikes()
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		s, make := source{rand.New(rand.NewPCG(15, uint64(total)))}, kinds[name]
		here := 0
		for i := range 21 {
			total++
			if text := make(s, i); func() bool { _, found := e.String(text); return found }() {
				out, _ := e.String(text)
				here++
				t.Logf("%s: %q became %q", name, text, out)
			}
		}
		wrong += here
	}
	t.Logf("%d kinds: %d of %d, %.2f %%", len(alikes()), wrong, total, 100*float64(wrong)/float64(total))
	if wrong*100 > total {
		t.Errorf("%d of %d are false", wrong, total)
	}
}
