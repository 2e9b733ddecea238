package leasing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/configfile"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/lease"
)

// table begins a credential in config.toml.
const table = "[[credential]]"

// Kept is what a person is told of a credential. It holds no value.
type Kept struct {
	Name string `json:"name"`
	// Store is the kind of place that the value is in, From which one it is.
	Store string `json:"store"`
	From  string `json:"from"`
	// Host, Methods and Paths are what the credential may be used for; Inside says that
	// the agent itself is given it.
	Host    string   `json:"host,omitempty"`
	Methods []string `json:"methods,omitempty"`
	Paths   []string `json:"paths,omitempty"`
	Inside  bool     `json:"inside,omitempty"`
	// Minted says by whom and for what the credential is minted; empty for a static one.
	Minted string   `json:"minted,omitempty"`
	Groups []string `json:"groups"`
	// Since is when the value was put there, Expires when it ends; zero where nobody knows.
	Since   time.Time `json:"since,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
}

// List is what the config says of credentials, and how old their values are. No value is
// shown.
func List(ctx context.Context, inst *installation.Installation) []Kept {
	all := []Kept{}
	for _, c := range inst.Config.Credentials {
		all = append(all, kept(ctx, inst, c))
	}
	return all
}

func kept(ctx context.Context, inst *installation.Installation, c config.Credential) Kept {
	source := c.Source()
	k := Kept{
		Name: c.Name, Store: string(source.Store()), From: source.String(), Host: c.Host, Methods: c.Rule(nil).Methods, Paths: c.Rule(nil).Paths,
		Inside: c.Inside(), Groups: c.Groups, Since: source.Since(ctx, inst.Options.Getenv), Expires: c.Expires,
	}
	k.Minted = c.Mint.String()
	switch {
	case c.OverSSH():
		k.Host, k.Methods = c.User+"@"+c.Host, []string{"SSH"}
	case !k.Inside:
		k.Methods = lease.Methods(k.Methods)
	}
	return k
}

// find is the place of a credential in the config.
func find(inst *installation.Installation, name string) (int, error) {
	at := slices.IndexFunc(inst.Config.Credentials, func(c config.Credential) bool { return c.Name == name })
	if at < 0 {
		return 0, config.Errorf("there is no credential %.80q in config.toml: nacre credentials list", name)
	}
	return at, nil
}

// Try reads the values of the named credentials, or of all, and shows none.
func Try(ctx context.Context, inst *installation.Installation, names []string) ([]installation.Finding, error) {
	if len(names) == 0 {
		return Check(ctx, inst), nil
	}
	var findings []installation.Finding
	for _, name := range names {
		at, err := find(inst, name)
		if err != nil {
			return nil, err
		}
		findings = append(findings, checkCredential(ctx, inst, inst.Config.Credentials[at]))
	}
	return findings, nil
}

// Addition is a credential that a person adds.
type Addition struct {
	config.Credential
	// Store is where its value is kept: keyring, age or file.
	Store string
	// Identity is age's identity file; empty means one in the config folder, which is made
	// where there is none.
	Identity string
}

// Change is what came of adding or removing a credential.
type Change struct {
	Name string `json:"name"`
	// From is where the value is, or was.
	From string `json:"from"`
	// Written says that config.toml was changed; otherwise the operator changes Lines there.
	Written bool   `json:"written"`
	Lines   string `json:"lines,omitempty"`
	// Left says why the value is still where it was; empty where it is gone.
	Left string `json:"left,omitempty"`
	// Made is the identity file that was made.
	Made string `json:"made,omitempty"`
}

// Add asks for a value, keeps it where the person wants it and lets config.toml say where.
// What the config would not take is refused before the value is asked for.
func Add(ctx context.Context, inst *installation.Installation, a Addition, ask func() (nacre.Secret, error)) (Change, error) {
	dir := inst.Registry.Paths().Config
	identity := cmp.Or(a.Identity, filepath.Join(dir, config.CredentialsDir, "identity.txt"))
	var err error
	if a.Value, err = valueIn(dir, lease.Store(a.Store), a.Name, identity); err != nil {
		return Change{}, err
	}
	want, err := config.Load(dir)
	if err != nil {
		return Change{}, err
	}
	want.Credentials = append(slices.Clone(want.Credentials), a.Credential)
	if err := want.CheckCredentials(); err != nil {
		return Change{}, &config.Error{Err: err}
	}
	done := Change{Name: a.Name, From: a.Source().String(), Lines: lines(a.Credential)}
	if _, err := a.Source().Read(ctx, inst.Options.Getenv); err == nil {
		return Change{}, config.Errorf("%s has a value already, and config.toml does not say whose: take it away, or write %s into config.toml", done.From, table)
	}
	value, err := ask()
	if err != nil {
		return Change{}, err
	}
	if err := lease.CheckValue(value); err != nil {
		return Change{}, config.Errorf("credential %s: %w", a.Name, err)
	}
	if a.Store == string(lease.StoreAge) {
		made, err := lease.MakeIdentity(identity)
		if err != nil {
			return Change{}, inst.Writable(err)
		}
		if made {
			done.Made = identity
		}
	}
	if err := a.Source().Keep(ctx, inst.Options.Getenv, value); err != nil {
		return Change{}, notKept(inst, a.Name, err)
	}
	done.Written, err = configfile.Change(dir, want, func(text string) string { return configfile.Append(text, done.Lines) })
	if err != nil {
		return Change{}, errors.Join(inst.Writable(err), a.Source().Forget(ctx, inst.Options.Getenv))
	}
	return done, nil
}

// valueIn is where a credential's value is kept.
func valueIn(dir string, store lease.Store, name, identity string) (lease.Value, error) {
	file := filepath.Join(dir, config.CredentialsDir, name)
	switch store { //nolint:exhaustive // nacre only reads from the others
	case lease.StoreKeyring:
		return lease.Value{ValueKeyring: name}, nil
	case lease.StoreAge:
		return lease.Value{ValueAge: file + ".age", ValueAgeIdentity: identity}, nil
	case lease.StoreFile:
		return lease.Value{ValueFile: file}, nil
	}
	return lease.Value{}, config.Errorf("name the store that the value is kept in: keyring, age or file")
}

// notKept is a failure of a store.
func notKept(inst *installation.Installation, name string, err error) error {
	return &installation.NotReady{What: "credential " + name, Err: inst.Writable(err)}
}

// lines are a credential as config.toml has it.
func lines(c config.Credential) string {
	var text strings.Builder
	text.WriteString(table + "\n")
	for _, key := range []struct {
		name  string
		value any
	}{
		{"name", c.Name}, {"host", c.Host}, {"scheme", c.Scheme}, {"header", c.Header}, {"user", c.User},
		{"methods", c.Methods}, {"paths", c.Paths}, {"groups", c.Groups}, {"placeholder_env", c.PlaceholderEnv},
	} {
		write(&text, key.name, key.value)
	}
	if c.StandingSecret {
		text.WriteString("standing_secret = true\n")
	}
	write(&text, "value_file", c.ValueFile)
	write(&text, "value_keyring", c.ValueKeyring)
	write(&text, "value_age", c.ValueAge)
	write(&text, "value_age_identity", c.ValueAgeIdentity)
	return text.String()
}

// write adds a key, unless it has no value.
func write(text *strings.Builder, key string, value any) {
	switch v := value.(type) {
	case string:
		if v != "" {
			fmt.Fprintf(text, "%s = %s\n", key, configfile.Quote(v))
		}
	case []string:
		quoted := make([]string, len(v))
		for i := range v {
			quoted[i] = configfile.Quote(v[i])
		}
		if len(v) > 0 {
			fmt.Fprintf(text, "%s = [%s]\n", key, strings.Join(quoted, ", "))
		}
	}
}

// Rotate puts a new value in the place of a credential's.
func Rotate(ctx context.Context, inst *installation.Installation, name string, ask func() (nacre.Secret, error)) (Kept, error) {
	at, err := find(inst, name)
	if err != nil {
		return Kept{}, err
	}
	c := inst.Config.Credentials[at]
	if !c.Source().Writable() || c.OverSSH() { // a private key is no line that is typed
		return Kept{}, config.Errorf("credential %s: %s: %w", name, c.Source(), lease.ErrElsewhere)
	}
	value, err := ask()
	if err != nil {
		return Kept{}, err
	}
	if err := lease.CheckValue(value); err != nil {
		return Kept{}, config.Errorf("credential %s: %w", name, err)
	}
	if err := c.Source().Keep(ctx, inst.Options.Getenv, value); err != nil {
		return Kept{}, notKept(inst, name, err)
	}
	return kept(ctx, inst, c), nil
}

// Remove takes a credential's value away, where nacre can, and then the credential out of
// config.toml. Where the value cannot be taken away because its store does not answer,
// nothing is changed.
func Remove(ctx context.Context, inst *installation.Installation, name string) (Change, error) {
	at, err := find(inst, name)
	if err != nil {
		return Change{}, err
	}
	source := inst.Config.Credentials[at].Source()
	done := Change{Name: name, From: source.String()}
	if other := alsoUses(inst.Config, at); other != "" {
		done.Left = fmt.Sprintf("%s: %s uses it too", source, other)
	} else if source.Writable() {
		if err := source.Forget(ctx, inst.Options.Getenv); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Change{}, notKept(inst, name, err)
		}
	} else {
		done.Left = fmt.Sprintf("%s: %s", source, lease.ErrElsewhere)
	}
	dir := inst.Registry.Paths().Config
	want, err := config.Load(dir)
	if err != nil || len(want.Credentials) != len(inst.Config.Credentials) {
		return done, cmp.Or(err, config.Errorf("config.toml was changed meanwhile: try again"))
	}
	want.Credentials = slices.Delete(slices.Clone(want.Credentials), at, at+1)
	if len(want.Credentials) == 0 {
		want.Credentials = nil
	}
	done.Written, err = configfile.Change(dir, want, func(text string) string { return configfile.Drop(text, table, at) })
	return done, inst.Writable(err)
}

// alsoUses names what else in the config has its value where the credential at a place has; "" where nothing
// has: what is taken away is taken from it too.
func alsoUses(c config.Config, at int) string {
	source := c.Credentials[at].Source()
	for i, other := range c.Credentials {
		if i != at && slices.ContainsFunc([]lease.Source{other.Source(), other.AccessKey(), other.SessionToken()}, func(other lease.Source) bool { return lease.SamePlace(source, other) }) {
			return "credential " + other.Name
		}
	}
	for name, access := range c.Access {
		for _, value := range access.Credentials {
			if lease.SamePlace(source, value.Source()) {
				return "[access." + string(name) + "]"
			}
		}
	}
	c.Credentials, c.Access = nil, nil
	if mentions(reflect.ValueOf(c), source) {
		return "another part of config.toml"
	}
	return ""
}

// mentions reports whether a text of a config is the path of the value.
func mentions(v reflect.Value, source lease.Source) bool {
	switch v.Kind() { //nolint:exhaustive // the others hold no text
	case reflect.String:
		return lease.SamePlace(source, lease.Source{File: v.String()})
	case reflect.Pointer, reflect.Interface:
		return !v.IsNil() && mentions(v.Elem(), source)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if mentions(v.Index(i), source) {
				return true
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if mentions(v.MapIndex(key), source) {
				return true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if mentions(v.Field(i), source) {
				return true
			}
		}
	}
	return false
}
