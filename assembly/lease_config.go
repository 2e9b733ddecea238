package assembly

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/posture"
)

const (
	// deliverProxy keeps a credential outside: the proxy adds it.
	deliverProxy = "proxy"
	// deliverInside puts it in the sandbox, where its agent can read it.
	deliverInside = "inside"
	// maxCredentials is how many a config has.
	maxCredentials = 64
	// maxTTL is the longest time that a value is used before it is read anew.
	maxTTL = time.Hour
)

// CredentialConfig is a static credential: what it is for, and where its value
// is, never the value (M-22, M-32).
type CredentialConfig struct {
	Name string `toml:"name"`
	// Host is HOST or HOST:PORT; TLS to it is opened.
	Host string `toml:"host"`
	// Scheme is bearer, basic, raw, query or sigv4; empty means bearer.
	Scheme string `toml:"scheme"`
	// Header is where the value goes; empty means Authorization.
	Header string `toml:"header"`
	// Query is the parameter of scheme query, User the user of scheme basic.
	Query string `toml:"query"`
	User  string `toml:"user"`
	// Region and Service are of scheme sigv4.
	Region  string `toml:"region"`
	Service string `toml:"service"`
	// Methods and Paths are what it may be used for; no methods mean GET and HEAD.
	Methods []string `toml:"methods"`
	Paths   []string `toml:"paths"`
	// Groups are whose sessions hold it.
	Groups []string `toml:"groups"`
	// StandingSecret says that the operator knows: the value is good until its
	// issuer takes it back.
	StandingSecret bool `toml:"standing_secret"`

	ValueConfig
	AccessKeyEnv     string `toml:"access_key_env"`
	AccessKeyFile    string `toml:"access_key_file"`
	SessionTokenEnv  string `toml:"session_token_env"`
	SessionTokenFile string `toml:"session_token_file"`

	// Expires is when the value ends, TTL how long it is used before it is read anew.
	Expires time.Time `toml:"expires"`
	TTL     string    `toml:"ttl"`
	// CAFile holds the authorities that vouch for the host; empty means the system's.
	CAFile string `toml:"ca_file"`
	// Delivery is proxy or inside; empty means proxy. Inside, the value is in the
	// variable AsEnv or the file AsFile.
	Delivery string `toml:"delivery"`
	AsEnv    string `toml:"as_env"`
	AsFile   string `toml:"as_file"`
}

func (c CredentialConfig) inside() bool { return c.Delivery == deliverInside }

func (c CredentialConfig) accessKey() lease.Source {
	return lease.Source{Env: c.AccessKeyEnv, File: c.AccessKeyFile}
}

func (c CredentialConfig) sessionToken() lease.Source {
	return lease.Source{Env: c.SessionTokenEnv, File: c.SessionTokenFile}
}

// named reports whether a source that may be left out was given.
func named(s lease.Source) bool { return s.Env != "" || s.File != "" || len(s.Command) > 0 }

// checkCredentials refuses what is not complete. No error repeats what was
// written where a secret may have been: only names that were checked.
func (c Config) checkCredentials() error {
	if len(c.Credentials) > maxCredentials {
		return fmt.Errorf("credential: at most %d", maxCredentials)
	}
	seen := map[string]bool{}
	for i, credential := range c.Credentials {
		if !isCredentialName(credential.Name) {
			return fmt.Errorf("credential %d: name is 1–64 lower-case letters, digits and dashes", i+1)
		}
		if seen[credential.Name] {
			return fmt.Errorf("credential %s is there twice", credential.Name)
		}
		seen[credential.Name] = true
		if err := credential.check(); err != nil {
			return fmt.Errorf("credential %s: %w", credential.Name, err)
		}
	}
	return nil
}

func isCredentialName(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

func (c CredentialConfig) check() error {
	switch {
	case !c.StandingSecret:
		return fmt.Errorf("it is static, and good until its issuer takes it back: say that you know with standing_secret = true")
	case len(c.Groups) == 0:
		return fmt.Errorf("name whose sessions hold it, such as groups = [\"main\"]")
	case c.Delivery != "" && c.Delivery != deliverProxy && c.Delivery != deliverInside:
		return fmt.Errorf("delivery is proxy or inside")
	}
	for _, name := range c.Groups {
		if _, err := nacre.ParseGroup(name); err != nil {
			return fmt.Errorf("groups holds what is no group's name")
		}
	}
	if _, err := c.ttl(); err != nil {
		return err
	}
	for key, source := range map[string]lease.Source{"value": c.value(), "access_key": c.accessKey(), "session_token": c.sessionToken()} {
		if key != "value" && !named(source) {
			continue
		}
		if err := source.Check(); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	if c.inside() {
		return c.checkInside()
	}
	return c.checkProxy()
}

func (c CredentialConfig) checkInside() error {
	switch {
	case c.Host != "" || c.Scheme != "" || c.Header != "" || len(c.Paths)+len(c.Methods) > 0 || c.CAFile != "":
		return fmt.Errorf("a credential that is delivered inside is bound to no host: leave out host, scheme, header, methods, paths and ca_file")
	case (c.AsEnv == "") == (c.AsFile == ""):
		return fmt.Errorf("name where it is inside: as_env or as_file")
	case c.AsEnv != "" && !isEnvName(c.AsEnv):
		return fmt.Errorf("as_env is a variable's name in capital letters, and none that programs are started with")
	case c.AsFile != "" && !isCredentialName(strings.ToLower(c.AsFile)):
		return fmt.Errorf("as_file is a plain name of letters, digits and dashes")
	}
	return nil
}

// isEnvName refuses the variables that change what runs.
func isEnvName(s string) bool {
	switch s {
	case "PATH", "HOME", "IFS", "ENV", "BASH_ENV", "PYTHONPATH", "PYTHONSTARTUP", "NODE_OPTIONS", "PERL5OPT", "RUBYOPT", "NO_PROXY", "HTTP_PROXY", "HTTPS_PROXY":
		return false
	}
	return s != "" && len(s) <= 64 && !strings.HasPrefix(s, "LD_") && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == "" && (s[0] < '0' || s[0] > '9')
}

func (c CredentialConfig) checkProxy() error {
	if c.AsEnv != "" || c.AsFile != "" {
		return fmt.Errorf("as_env and as_file are for delivery = \"inside\"")
	}
	if c.Scheme == string(egress.SchemeSigV4) && !named(c.accessKey()) {
		return fmt.Errorf("scheme sigv4 needs access_key_env or access_key_file too")
	}
	if c.CAFile != "" && !filepath.IsAbs(c.CAFile) {
		return fmt.Errorf("ca_file is an absolute path")
	}
	if _, err := posture.ParseEgress(c.Host); err != nil {
		return fmt.Errorf("host is HOST or HOST:PORT, no wildcard and no address")
	}
	return c.rule(nil).Check()
}

func (c CredentialConfig) ttl() (time.Duration, error) {
	if c.TTL == "" {
		return lease.DefaultTTL, nil
	}
	d, err := time.ParseDuration(c.TTL)
	if err != nil || d < time.Second || d > maxTTL {
		return 0, fmt.Errorf("ttl is a time from 1s to 1h, such as \"15m\"")
	}
	return d, nil
}

// rule is the credential as the proxy has it. The host was checked.
func (c CredentialConfig) rule(h *hold) egress.Credential {
	where, _ := posture.ParseEgress(c.Host)
	e := egress.Credential{
		Name: c.Name, Host: where.Host, Port: where.Port, Methods: c.Methods, Paths: c.Paths,
		Scheme: egress.Scheme(cmp.Or(c.Scheme, string(egress.SchemeBearer))), Query: c.Query, User: c.User,
		Region: c.Region, Service: c.Service, Material: h.material,
	}
	if e.Scheme != egress.SchemeQuery && e.Scheme != egress.SchemeSigV4 {
		e.Header = cmp.Or(c.Header, "Authorization")
	} else {
		e.Header = c.Header
	}
	return e
}

// roots are the authorities that ca_file names; nil means the system's.
func (c CredentialConfig) roots() (*x509.CertPool, error) {
	if c.CAFile == "" {
		return nil, nil //nolint:nilnil // the system's
	}
	data, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("credential %s: ca_file: %w", c.Name, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("credential %s: ca_file holds no certificate in PEM", c.Name)
	}
	return pool, nil
}

// credentials are those that a group's sessions hold.
func (c Config) credentials(group nacre.Group) []CredentialConfig {
	var list []CredentialConfig
	for _, credential := range c.Credentials {
		if slices.Contains(credential.Groups, string(group)) {
			list = append(list, credential)
		}
	}
	return list
}

// covers reports whether a rule lets a session reach the credential's host.
func (c CredentialConfig) covers(rule nacre.EgressRule) bool {
	where, err := posture.ParseEgress(c.Host)
	_, parent, _ := strings.Cut(where.Host, ".")
	return err == nil && !c.inside() && rule.Port == where.Port && rule.Protocol == nacre.ProtocolTLS &&
		(rule.Host == where.Host || rule.Host == "*."+parent)
}

// reach is what a group's sessions can reach, and with which credentials.
func (c Config) reach(group nacre.Group, rules []nacre.EgressRule) []string {
	texts := ruleTexts(rules)
	for i, rule := range rules {
		var names []string
		for _, credential := range c.credentials(group) {
			if credential.covers(rule) {
				names = append(names, credential.Name)
			}
		}
		if len(names) > 0 {
			texts[i] += " opened with " + strings.Join(names, ", ")
		}
	}
	return texts
}

// delivered are the credentials that are inside, and where.
func (c Config) delivered(group nacre.Group) []string {
	var texts []string
	for _, credential := range c.credentials(group) {
		switch {
		case !credential.inside():
		case credential.AsEnv != "":
			texts = append(texts, credential.Name+" as $"+credential.AsEnv)
		default:
			texts = append(texts, credential.Name+" at "+insideFile(credential))
		}
	}
	return texts
}

func insideFile(c CredentialConfig) string {
	return nacre.SocketDir + "/" + credentialsDir + "/" + c.AsFile
}
