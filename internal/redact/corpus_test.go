package redact_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
)

// source makes the secrets of a corpus: the same ones in each run, and none
// that stands in this file.
type source struct{ *rand.Rand }

const (
	lowers   = "abcdefghijklmnopqrstuvwxyz"
	uppers   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	figures  = "0123456789"
	letters  = lowers + uppers
	alnums   = letters + figures
	hexes    = "0123456789abcdef"
	urlSafe  = alnums + "-_"
	base64s  = alnums + "+/"
	capitals = uppers + figures
)

func (s source) from(set string, n int) string {
	var b strings.Builder
	for range n {
		b.WriteByte(set[s.IntN(len(set))])
	}
	return b.String()
}

// mixed has a digit, as what machines generate has.
func (s source) mixed(set string, n int) string {
	for {
		if v := s.from(set, n); strings.ContainsAny(v, figures) {
			return v
		}
	}
}

func (s source) uuid() string {
	h := s.from(hexes, 32)
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-a" + h[17:20] + "-" + h[20:]
}

func (s source) word() string {
	return []string{"maple", "river", "orbit", "quartz", "falcon", "ember", "violet", "harbor"}[s.IntN(8)]
}

// class is a kind of secret. One without a name of its own is known by its form.
type class struct {
	name string
	// make is the secret; name the key it stands under where it has no form.
	make func(s source) string
	key  string
	// whole classes are texts that bring their own surroundings: have %s in them.
	whole string
}

func classes() []class {
	return []class{
		{name: "aws-access", make: func(s source) string { return "AKI" + "A" + s.mixed(capitals, 16) }},
		{name: "aws-secret", make: func(s source) string { return s.mixed(base64s, 40) }, key: "aws_secret_access_key"},
		{name: "aws-session", make: func(s source) string { return "IQoJb3Jp" + "Z2lu" + s.mixed(base64s, 200) }},
		{name: "google-api", make: func(s source) string { return "AI" + "za" + s.mixed(urlSafe, 35) }},
		{name: "google-oauth", make: func(s source) string { return "ya" + "29." + s.mixed(urlSafe, 68) }},
		{name: "google-client", make: func(s source) string { return "GOC" + "SPX-" + s.mixed(urlSafe, 28) }},
		{name: "github-classic", make: func(s source) string { return "gh" + "p_" + s.mixed(alnums, 36) }},
		{name: "github-fine", make: func(s source) string { return "github" + "_pat_" + s.mixed(alnums, 22) + "_" + s.mixed(alnums, 59) }},
		{name: "github-app", make: func(s source) string { return "gh" + "s_" + s.mixed(alnums, 36) }},
		{name: "gitlab", make: func(s source) string { return "glp" + "at-" + s.mixed(urlSafe, 20) }},
		{name: "slack-bot", make: func(s source) string {
			return "xo" + "xb-" + s.from(figures, 12) + "-" + s.from(figures, 13) + "-" + s.from(alnums, 24)
		}},
		{name: "slack-user", make: func(s source) string {
			return "xo" + "xp-" + s.from(figures, 12) + "-" + s.from(figures, 12) + "-" + s.from(figures, 12) + "-" + s.from(hexes, 32)
		}},
		{name: "slack-hook", make: func(s source) string {
			return "https://hooks.sla" + "ck.com/services/T" + s.mixed(capitals, 8) + "/B" + s.mixed(capitals, 8) + "/" + s.from(alnums, 24)
		}},
		{name: "stripe-live", make: func(s source) string { return "sk_" + "live_" + s.mixed(alnums, 24) }},
		{name: "stripe-hook", make: func(s source) string { return "wh" + "sec_" + s.mixed(alnums, 32) }},
		{name: "openai", make: func(s source) string { return "sk-" + s.mixed(alnums, 20) + "T3Blb" + "kFJ" + s.mixed(alnums, 20) }},
		{name: "openai-project", make: func(s source) string { return "sk-" + "proj-" + s.mixed(urlSafe, 74) }},
		{name: "anthropic", make: func(s source) string { return "sk-" + "ant-api03-" + s.mixed(urlSafe, 93) + "AA" }},
		{name: "huggingface", make: func(s source) string { return "h" + "f_" + s.from(letters, 34) }},
		{name: "npm", make: func(s source) string { return "np" + "m_" + s.mixed(alnums, 36) }},
		{name: "pypi", make: func(s source) string { return "py" + "pi-AgEIcHlwaS5vcmc" + s.mixed(urlSafe, 120) }},
		{name: "twilio-key", make: func(s source) string { return "S" + "K" + s.from(hexes, 32) }},
		{name: "twilio-auth", make: func(s source) string { return s.from(hexes, 32) }, key: "TWILIO_AUTH_TOKEN"},
		{name: "sendgrid", make: func(s source) string { return "S" + "G." + s.mixed(urlSafe, 22) + "." + s.mixed(urlSafe, 43) }},
		{name: "mailgun", make: func(s source) string { return "ke" + "y-" + s.from(hexes, 32) }},
		{name: "mailchimp", make: func(s source) string { return s.from(hexes, 32) + "-us" + fmt.Sprint(1+s.IntN(20)) }},
		{name: "azure-storage", make: func(s source) string { return s.mixed(base64s, 86) + "==" }, key: "AccountKey"},
		{name: "azure-client", make: func(s source) string { return s.from(alnums, 3) + "8" + "Q~" + s.mixed(urlSafe+"~.", 34) }},
		{name: "heroku", make: func(s source) string { return s.uuid() }, key: "HEROKU_API_KEY"},
		{name: "digitalocean", make: func(s source) string { return "dop" + "_v1_" + s.from(hexes, 64) }},
		{name: "telegram", make: func(s source) string { return s.from("123456789", 9) + ":A" + "A" + s.mixed(urlSafe, 33) }},
		{name: "discord", make: func(s source) string {
			return base64.RawStdEncoding.EncodeToString([]byte(s.from("123456789", 18))) + "." + s.mixed(urlSafe, 6) + "." + s.mixed(urlSafe, 38)
		}},
		{name: "shopify", make: func(s source) string { return "shp" + "at_" + s.from(hexes, 32) }},
		{name: "square", make: func(s source) string { return "sq0" + "atp-" + s.mixed(urlSafe, 22) }},
		{name: "databricks", make: func(s source) string { return "da" + "pi" + s.mixed(hexes, 32) }},
		{name: "vault", make: func(s source) string { return "hv" + "s." + s.mixed(urlSafe, 90) }},
		{name: "age", make: func(s source) string { return "AGE-SECRET" + "-KEY-1" + s.mixed(capitals, 58) }},
		{name: "terraform", make: func(s source) string { return s.from(alnums, 14) + ".atl" + "asv1." + s.mixed(alnums, 67) }},
		{name: "datadog", make: func(s source) string { return s.from(hexes, 32) }, key: "DD_API_KEY"},
		{name: "grafana", make: func(s source) string { return "gl" + "sa_" + s.mixed(alnums, 32) + "_" + s.from(hexes, 8) }},
		{name: "linear", make: func(s source) string { return "lin" + "_api_" + s.mixed(alnums, 40) }},
		{name: "docker", make: func(s source) string { return "dckr" + "_pat_" + s.mixed(urlSafe, 27) }},
		{name: "new-relic", make: func(s source) string { return "NR" + "AK-" + s.mixed(capitals, 27) }},
		{name: "jwt", make: func(s source) string {
			part := func(v string) string { return base64.RawURLEncoding.EncodeToString([]byte(v)) }
			return part(`{"alg":"HS256","typ":"JWT"}`) + "." + part(`{"sub":"`+s.from(figures, 10)+`"}`) + "." + s.mixed(urlSafe, 43)
		}},
		{name: "braintree", make: func(s source) string {
			return "access_" + "token$production$" + s.mixed(hexes, 16) + "$" + s.mixed(hexes, 32)
		}},
		{name: "airtable", make: func(s source) string { return "pa" + "t" + s.mixed(alnums, 14) + "." + s.mixed(hexes, 64) }},
		{name: "supabase", make: func(s source) string { return "sb_" + "secret_" + s.mixed(alnums, 31) }},
		{name: "neon", make: func(s source) string { return "na" + "pi_" + s.mixed("abcdefghijklmnopqrstuvwxyz0123456789", 64) }},
		{name: "honeycomb", make: func(s source) string { return "hca" + "ik_01" + s.mixed("abcdefghijklmnopqrstuvwxyz0123456789", 56) }},
		{name: "e2b", make: func(s source) string { return "e2" + "b_" + s.mixed(hexes, 40) }},
		{name: "crates", make: func(s source) string { return "ci" + "o" + s.mixed(alnums, 32) }},
		{name: "facebook", make: func(s source) string { return "EA" + "A" + s.mixed(alnums, 170) }},
		{name: "xprv", make: func(s source) string { return "xp" + "rv9s21ZrQH143K" + s.mixed(alnums, 97) }},
		{name: "signed-link", make: func(s source) string { return s.mixed(hexes, 64) }, whole: "https://b.s3.amazonaws.com/k?X-Amz-Expires=60&X-Amz-Signature=%s"},
		{name: "teams-hook", make: func(s source) string {
			return "https://x.webhook.office" + ".com/webhookb2/" + s.uuid() + "@" + s.uuid() + "/IncomingWebhook/" + s.mixed(hexes, 32) + "/" + s.uuid()
		}},
		{name: "kube-key", make: func(s source) string { return s.mixed(base64s, 200) }, whole: "    client-key-data: %s"},
		{name: "pem", make: func(s source) string {
			return "-----BEGIN " + "PRIVATE KEY-----\n" + s.mixed(base64s, 64) + "\n" + s.mixed(base64s, 40) + "\n-----END " + "PRIVATE KEY-----"
		}},
		{name: "ssh", make: func(s source) string {
			return "-----BEGIN OPENSSH " + "PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA" + s.mixed(base64s, 50) + "\n-----END OPENSSH " + "PRIVATE KEY-----"
		}},
		{name: "url-password", make: func(s source) string { return s.mixed(alnums, 12) }, whole: "postgres://app:%s@db.internal:5432/main"},
		{name: "url-redis", make: func(s source) string { return s.mixed(alnums, 16) }, whole: "redis://:%s@cache:6379/0"},
		{name: "basic", make: func(s source) string {
			return base64.StdEncoding.EncodeToString([]byte("user:" + s.mixed(alnums, 12)))
		}, whole: "Authorization: Basic %s"},
		{name: "bearer", make: func(s source) string { return s.mixed(urlSafe, 40) }, whole: "Authorization: Bearer %s"},
		{name: "auth-scheme", make: func(s source) string { return s.mixed(alnums, 32) }, whole: "Authorization: Token %s"},
		{name: "password", make: func(s source) string { return s.word() + "-" + s.from(figures, 3) + s.word() }, key: "password"},
		{name: "db-pass", make: func(s source) string { return s.word() + s.from(figures, 4) + "!" }, key: "DB_PASS"},
		{name: "generic-secret", make: func(s source) string { return s.mixed(alnums, 32) }, key: "client_secret"},
		{name: "generic-token", make: func(s source) string { return s.mixed(hexes, 40) }, key: "deploy_token"},
		{name: "generic-key", make: func(s source) string { return s.mixed(alnums, 24) }, key: "X-Api-Key"},
		{name: "cookie", make: func(s source) string { return s.mixed(alnums, 32) }, whole: "Set-Cookie: session=%s; Path=/; HttpOnly"},
		{name: "curl-user", make: func(s source) string { return s.mixed(alnums, 14) }, whole: "curl -u deploy:%s https://api.internal/v1"},
		{name: "proxy-user", make: func(s source) string { return s.mixed(alnums, 14) }, whole: "curl --proxy-user deploy:%s https://api.internal/v1"},
		{name: "docker-login", make: func(s source) string { return s.mixed(alnums, 14) }, whole: "docker login registry.internal -u deploy -p %s"},
		{name: "helm-login", make: func(s source) string { return s.mixed(alnums, 14) }, whole: "helm registry login registry.internal -u deploy -p '%s' --insecure"},
		{name: "redis-option", make: func(s source) string { return s.mixed(alnums, 14) }, whole: "redis-cli -h cache -p 6379 -a %s ping"},
		{name: "ldap-option", make: func(s source) string { return s.mixed(alnums, 14) }, whole: "ldapsearch -D cn=app -w %s -b dc=x"},
		{name: "auth-pair", make: func(s source) string { return s.mixed(alnums, 14) }, whole: "requests.get(url, auth=('deploy', '%s'))"},
		{name: "auth-call", make: func(s source) string { return s.mixed(alnums, 14) }, whole: "req.SetBasicAuth(\"deploy\", \"%s\")"},
		{name: "escaped-header", make: func(s source) string { return s.mixed(alnums, 24) }, whole: `curl -H Authorization:\ Bearer\ %s https://api.internal/v1`},
		{name: "signed-request", make: func(s source) string { return s.mixed(hexes, 64) }, whole: "Authorization: AWS4-HMAC-SHA256 Credential=x/20260301/eu/s3/aws4_request, SignedHeaders=host, Signature=%s"},
		{name: "netrc", make: func(s source) string { return s.mixed(alnums, 14) }, whole: "machine api.internal login deploy password %s"},
		{name: "cli-option", make: func(s source) string { return s.mixed(alnums, 14) }, whole: "mysqldump --host db --password %s main"},
		{name: "connection", make: func(s source) string { return s.mixed(alnums, 14) }, whole: "Server=db;Database=main;User Id=app;Password=%s;Encrypt=True"},
		{name: "k8s-env", make: func(s source) string { return s.mixed(alnums, 16) }, whole: "- name: DB_PASSWORD\n  value: %s\n"},
		{name: "define", make: func(s source) string { return s.mixed(alnums, 16) }, whole: "define('DB_PASSWORD', '%s');"},
	}
}

// contexts are the surroundings of a secret v under a name k.
var contexts = []struct {
	name string
	in   func(k, v string) string
}{
	{"json", func(k, v string) string { return fmt.Sprintf(`{"id": 7, %q: %q, "ok": true}`, k, v) }},
	{"yaml", func(k, v string) string { return fmt.Sprintf("app:\n  %s: %s\n  port: 8080\n", k, v) }},
	{"env", func(k, v string) string { return fmt.Sprintf("PORT=8080\n%s=%s\nDEBUG=1\n", k, v) }},
	{"url", func(k, v string) string { return fmt.Sprintf("https://api.internal/v1/x?%s=%s&page=2", k, v) }},
	{"header", func(k, v string) string { return fmt.Sprintf("GET / HTTP/1.1\r\nHost: h\r\n%s: %s\r\n\r\n", k, v) }},
	{"log", func(k, v string) string { return fmt.Sprintf("2026-03-01T12:00:00Z WARN auth: %s=%s rejected\n", k, v) }},
	{"code", func(k, v string) string { return fmt.Sprintf("const %s = '%s';\nrun();\n", k, v) }},
	{"python", func(k, v string) string { return fmt.Sprintf("%s = os.environ.get(\"X\") or \"%s\"\n", k, v) }},
	{"xml", func(k, v string) string { return fmt.Sprintf("<cfg><%s>%s</%s></cfg>", k, v, k) }},
	{"toml", func(k, v string) string { return fmt.Sprintf("[app]\n%s = \"%s\"\n", k, v) }},
}

// inContext writes a secret the way its class is written there. A class with
// its own surroundings is put into a line of a log.
func (c class) inContext(i int, v string) string {
	if c.whole != "" {
		return "line 1\n" + fmt.Sprintf(c.whole, v) + "\nline 3\n"
	}
	k := c.key
	if k == "" {
		k = "value"
	}
	context := contexts[i%len(contexts)]
	if context.name == "python" && c.key != "" {
		context = contexts[(i+1)%len(contexts)]
	}
	if context.name == "json" && strings.Contains(v, "\n") {
		v = strings.ReplaceAll(v, "\n", "\\n")
		return fmt.Sprintf(`{"k": "%s"}`, v)
	}
	return context.in(k, v)
}
