package config

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
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
	// DeliverProxy keeps a credential outside: the proxy adds it.
	DeliverProxy = "proxy"
	// DeliverInside puts it in the sandbox, where its agent can read it.
	DeliverInside = "inside"
	// maxCredentials is how many a config has.
	maxCredentials = 64
)

// Credential is a static credential: what it is for, and where its value
// is, never the value (M-22, M-32).
type Credential struct {
	Name string `toml:"name"`
	// Host is HOST or HOST:PORT; TLS to it is opened.
	Host string `toml:"host"`
	Presenting
	lease.Uses
	// Groups are whose sessions hold it.
	Groups []string `toml:"groups"`
	// StandingSecret says that the operator knows: the value is good until its
	// issuer takes it back.
	StandingSecret bool `toml:"standing_secret"`

	lease.Value
	// Mint, where it is there, says who mints the credential: the value is what for.
	Mint lease.Minting `toml:"mint"`
	lease.AWSKey

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

// Presenting is how a value is put into a request.
type Presenting struct {
	// Scheme is bearer, basic, raw, query, sigv4 or ssh; empty means bearer.
	Scheme string `toml:"scheme"`
	// Header is where the value goes; empty means Authorization.
	Header string `toml:"header"`
	// Query is the parameter of scheme query, User the user of schemes basic and ssh.
	Query string `toml:"query"`
	User  string `toml:"user"`
	// Region and Service are of scheme sigv4.
	Region  string `toml:"region"`
	Service string `toml:"service"`
}

// Inside reports whether the agent itself is given the credential.
func (c Credential) Inside() bool { return c.Delivery == DeliverInside }

// CheckCredentials refuses what is not complete. No error repeats what was
// written where a secret may have been: only names that were checked.
func (c Config) CheckCredentials() error {
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

func (c Credential) check() error {
	switch {
	case !c.OverSSH() && (c.NamesLogin() || c.ValueAgent != ""):
		return fmt.Errorf("host_keys, confirm and value_agent are for scheme ssh")
	case c.Mint.Named() && (c.StandingSecret || c.Inside() || (c.Mint.Kind == lease.AWSSTS) != (c.Scheme == string(egress.SchemeSigV4))):
		return fmt.Errorf("a credential that is minted is not a standing secret, and is delivered by the proxy; one of aws-sts signs (scheme sigv4), and no other does")
	case !c.StandingSecret && !c.Mint.Named():
		return fmt.Errorf("this credential never expires: set standing_secret = true to accept a long-lived secret")
	case len(c.Groups) == 0:
		return fmt.Errorf("name whose sessions hold it, such as groups = [\"main\"]")
	case c.Delivery != "" && c.Delivery != DeliverProxy && c.Delivery != DeliverInside:
		return fmt.Errorf("delivery is proxy or inside")
	case c.Locked() != "" && (c.Inside() || c.OverSSH() || !isCredentialName(c.Locked()) || len(c.Locked()) > lease.MaxPower):
		return fmt.Errorf("power is the name of one, in at most %d lower-case letters, digits and dashes, and its credential is added by the proxy, not inside and not over SSH", lease.MaxPower)
	}
	for _, name := range c.Groups {
		if _, err := nacre.ParseGroup(name); err != nil {
			return fmt.Errorf("groups: %.80q is not a valid group name", name)
		}
	}
	if _, err := c.Lifetime(); cmp.Or(err, c.CheckPlaceholder(!c.Inside() && !c.OverSSH())) != nil {
		return cmp.Or(err, c.CheckPlaceholder(!c.Inside() && !c.OverSSH()))
	}
	if err := c.Mint.CheckFor(c.Uses); c.Mint.Named() && err != nil {
		return fmt.Errorf("mint: %w", err)
	}
	for key, source := range map[string]lease.Source{"value": c.Source(), "access_key": c.AccessKey(), "session_token": c.SessionToken()} {
		if key != "value" && !source.Named() {
			continue
		}
		if err := source.Check(); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	if c.Inside() {
		return c.checkInside()
	}
	return c.checkProxy()
}

func (c Credential) checkInside() error {
	switch {
	case c.Host != "" || c.Scheme != "" || c.Header != "" || len(c.Paths)+len(c.Methods) > 0 || len(c.Repositories)+len(c.Push) > 0 || c.CAFile != "":
		return fmt.Errorf("a credential that is delivered inside is bound to no host: leave out host, scheme, header, methods, paths, repositories, push and ca_file")
	case (c.AsEnv == "") == (c.AsFile == ""):
		return fmt.Errorf("name where it is inside: as_env or as_file")
	case c.AsEnv != "" && !lease.IsInside(c.AsEnv):
		return fmt.Errorf("as_env is a variable's name in capital letters, and none that programs are started with")
	case c.AsFile != "" && !isCredentialName(strings.ToLower(c.AsFile)):
		return fmt.Errorf("as_file is a plain name of letters, digits and dashes")
	}
	return nil
}

func (c Credential) checkProxy() error {
	if c.AsEnv != "" || c.AsFile != "" {
		return fmt.Errorf("as_env and as_file are for delivery = \"inside\"")
	}
	if c.Scheme == string(egress.SchemeSigV4) && !c.AccessKey().Named() {
		return fmt.Errorf("scheme sigv4 needs access_key_env or access_key_file too")
	}
	if c.CAFile != "" && !filepath.IsAbs(c.CAFile) {
		return fmt.Errorf("ca_file is an absolute path")
	}
	if _, err := c.where(); err != nil {
		return fmt.Errorf("host is HOST or HOST:PORT, no wildcard and no address")
	}
	if c.OverSSH() {
		return c.CheckLogin(c.User, c.Header+c.Query+c.Region+c.Service+c.CAFile+c.TTL != "", len(c.Methods)+len(c.Paths)+len(c.Repositories)+len(c.Push) > 0, c.Mint.Named(), c.AccessKey().Named(), c.SessionToken().Named())
	}
	return c.Rule(unread).Check()
}

// OverSSH reports whether it is a key of SSH, which logs in and is sent nowhere.
func (c Credential) OverSSH() bool { return c.Scheme == lease.SchemeSSH && !c.Inside() }

// where is the one place that it is for.
func (c Credential) where() (nacre.EgressRule, error) {
	if c.OverSSH() {
		return posture.ParseEgress(lease.AddressSSH(c.Host))
	}
	return posture.ParseEgress(c.Host)
}

// Lifetime is how long a lease of the credential lasts.
func (c Credential) Lifetime() (time.Duration, error) { return c.Mint.Lifetime(c.TTL) }

// unread stands for a value that a check does not need.
func unread(context.Context) (egress.Material, error) {
	return egress.Material{}, errors.New("the value was not read")
}

// Rule is the credential as the proxy has it, with what reads its value. The host
// was checked.
func (c Credential) Rule(material func(context.Context) (egress.Material, error)) egress.Credential {
	where, _ := c.where()
	e := egress.Credential{
		Name: c.Name, Host: where.Host, Port: where.Port, Methods: c.Methods, Header: c.Header,
		Scheme: egress.Scheme(cmp.Or(c.Scheme, string(egress.SchemeBearer))), Query: c.Query, User: c.User,
		Signing: egress.Signing{Region: c.Region, Service: c.Service}, Source: egress.Source{Material: material},
	}
	e.Paths, e.Whole = c.Mint.Leads(c.Paths)
	if e.Scheme != egress.SchemeQuery && e.Scheme != egress.SchemeSigV4 {
		e.Header = cmp.Or(c.Header, "Authorization")
	}
	return e.ForGit(posture.Git{Repositories: c.Repositories, Push: c.Push})
}

// Roots are the authorities that ca_file names; nil means the system's.
func (c Credential) Roots() (*x509.CertPool, error) {
	if c.CAFile == "" {
		return nil, nil //nolint:nilnil // the system's
	}
	text, err := readAuthorities(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("credential %s: ca_file: %w", c.Name, err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return pool, nil
}

// CredentialsOf are those that a group's sessions hold which have these powers.
func (c Config) CredentialsOf(group nacre.Group, powers ...string) []Credential {
	var list []Credential
	for _, credential := range c.Credentials {
		if slices.Contains(credential.Groups, string(group)) && (credential.Locked() == "" || slices.Contains(powers, credential.Locked())) {
			list = append(list, credential)
		}
	}
	return list
}

// Covers reports whether a rule lets a session reach the credential's host.
func (c Credential) Covers(rule nacre.EgressRule) bool {
	where, err := c.where()
	return err == nil && !c.Inside() && posture.LeadsTo(rule, where)
}

// Scopes are what a group's sessions may use of credentials, where a host can be reached (F-24),
// with what was learned.
func (c Config) Scopes(group nacre.Group, uses []egress.Use, powers ...string) []nacre.CredentialScope {
	var scopes []nacre.CredentialScope
	for _, credential := range c.CredentialsOf(group, powers...) {
		scope := credential.scope()
		scopes = append(scopes, scope)
		for _, more := range credential.Rule(unread).Further(group, uses) {
			scope.Methods, scope.Paths = more.Methods, more.Paths
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

func (c Credential) scope() nacre.CredentialScope {
	switch rule := c.Rule(unread); {
	case c.AsEnv != "":
		return nacre.CredentialScope{Name: c.Name, Inside: "$" + c.AsEnv}
	case c.Inside():
		return nacre.CredentialScope{Name: c.Name, Inside: insideFile(c)}
	case c.OverSSH():
		return nacre.CredentialScope{Name: c.Name, Host: rule.Host, Port: rule.Port, Login: c.User}
	default:
		return nacre.CredentialScope{Name: c.Name, Host: rule.Host, Port: rule.Port, Paths: rule.Paths, Methods: lease.Methods(rule.Methods), Minted: c.Mint.String()}
	}
}

// Reach is what a group's sessions can reach, and with which credentials.
func (c Config) Reach(group nacre.Group, rules []nacre.EgressRule, powers ...string) []string {
	texts := posture.RuleTexts(rules)
	for i, rule := range rules {
		var names []string
		for _, credential := range c.CredentialsOf(group, powers...) {
			if credential.Covers(rule) {
				names = append(names, credential.Name)
			}
		}
		if how := map[bool]string{true: " logged in to with ", false: " opened with "}[rule.Protocol == nacre.ProtocolTCP]; len(names) > 0 {
			texts[i] += how + strings.Join(names, ", ")
		}
	}
	return texts
}

// Delivered are the credentials that are inside, and where.
func (c Config) Delivered(group nacre.Group) []string {
	var texts []string
	for _, credential := range c.CredentialsOf(group) {
		switch {
		case !credential.Inside():
		case credential.AsEnv != "":
			texts = append(texts, credential.Name+" as $"+credential.AsEnv)
		default:
			texts = append(texts, credential.Name+" at "+insideFile(credential))
		}
	}
	return texts
}

func insideFile(c Credential) string {
	return nacre.SocketDir + "/" + CredentialsDir + "/" + c.AsFile
}

// CredentialsDir holds the files of credentials that are delivered inside, below the
// folder of sockets.
const CredentialsDir = "credentials"
