package assembly

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/plugin"
)

// configFile is the operator's config, in the config folder.
const configFile = "config.toml"

// PluginCredential is a credential that a plugin wants (D-29).
type PluginCredential struct {
	plugin.Credential
	// From says where its value is, if the config says so.
	From string
}

// PluginCredentials are those that a plugin's manifest lists.
func (r *Runtime) PluginCredentials(name nacre.PluginName) ([]PluginCredential, error) {
	f, err := r.plugin(name)
	if err == nil && f.Err != nil {
		err = badConfig("plugin %s: %w", name, f.Err)
	}
	if err != nil {
		return nil, err
	}
	to := r.reachOf(f)
	var list []PluginCredential
	for _, c := range f.Manifest.Install.Credentials {
		one := PluginCredential{Credential: c}
		if source, ok := to.values[c.Key]; ok {
			one.From = source.String()
		}
		list = append(list, one)
	}
	return list, nil
}

// CredentialWant is a credential that a plugin in use has to be given.
type CredentialWant struct {
	Plugin nacre.PluginName
	PluginCredential
	// Problem says why it has none: nobody gave it, or it cannot be read.
	Problem string
}

// CredentialWants are the credentials that plugins in use lack: all of them, or
// those named. It reads those that are given, and shows none.
func (r *Runtime) CredentialWants(ctx context.Context, names []nacre.PluginName) ([]CredentialWant, error) {
	found, err := r.plugins()
	if err != nil {
		return nil, err
	}
	var wants []CredentialWant
	for _, f := range found {
		if f.Err != nil || len(names) > 0 && !slices.Contains(names, f.Name) || len(names) == 0 && !r.inUse(f) {
			continue
		}
		to := r.reachOf(f)
		for _, c := range f.Manifest.Install.Credentials {
			want := CredentialWant{Plugin: f.Name, PluginCredential: PluginCredential{Credential: c}, Problem: "nobody gave it"}
			if source, given := to.values[c.Key]; given {
				_, err := source.Read(ctx, r.options.Getenv)
				if err == nil {
					continue
				}
				want.From, want.Problem = source.String(), err.Error()
			}
			wants = append(wants, want)
		}
	}
	return wants, nil
}

// StoreCredential keeps a value for a plugin in a file of its operator's own,
// and says which. A value that could not be used is refused, without it.
func (r *Runtime) StoreCredential(ctx context.Context, name nacre.PluginName, key string, value nacre.Secret) (string, error) {
	dir := filepath.Join(r.registry.Paths().Config, credentialsDir, string(name))
	path := filepath.Join(dir, key)
	if filepath.Dir(path) != dir {
		return "", fmt.Errorf("credential %s is no file's name", key)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	tried, err := os.CreateTemp(dir, ".new-") // mode 0600
	if err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(tried.Name()) }() // it has its name by then, or is of no use
	_, err = tried.WriteString(value.Reveal())
	if err := errors.Join(err, tried.Sync(), tried.Close()); err != nil {
		return "", err
	}
	if _, err := (lease.Source{File: tried.Name()}).Read(ctx, r.options.Getenv); err != nil {
		return "", badConfig("credential %s: %s", key, strings.TrimPrefix(err.Error(), "the file "+tried.Name()+": "))
	}
	return path, os.Rename(tried.Name(), path)
}

// AccessLines are what config.toml has to say for a plugin to have credentials,
// given the files that they are in, in the order of keys.
func AccessLines(name nacre.PluginName, keys []string, files map[string]string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "[access.%s.credentials]\n", name)
	for _, key := range keys {
		fmt.Fprintf(&text, "%s = { value_file = %s }\n", tomlText(key), tomlText(files[key]))
	}
	return text.String()
}

// tomlText is a basic string of TOML.
func tomlText(s string) string {
	var text strings.Builder
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			text.WriteString(`\` + string(r))
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&text, `\u%04X`, r)
		default:
			text.WriteRune(r)
		}
	}
	return `"` + text.String() + `"`
}

// AddAccess makes config.toml say where files with a plugin's credentials are, and
// reports whether it did. What would not load, or would say anything else than
// before, is not written, and neither is a file that is a link, which lies
// elsewhere for a reason.
func (r *Runtime) AddAccess(name nacre.PluginName, keys []string, files map[string]string) (bool, error) {
	dir := r.registry.Paths().Config
	path := filepath.Join(dir, configFile)
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		return false, nil
	}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	want, err := LoadConfig(dir)
	if err != nil {
		return false, err
	}
	want = want.withCredentials(name, keys, files)
	text := withLines(string(data), AccessLines(name, keys, files))
	if have, err := tried(dir, text); err != nil || !reflect.DeepEqual(have, want) {
		return false, nil //nolint:nilerr // then the operator adds them where they belong
	}
	return true, disk.Write(path, []byte(text), 0o600)
}

// withCredentials is the config with more of a plugin's credentials in files.
func (c Config) withCredentials(name nacre.PluginName, keys []string, files map[string]string) Config {
	c.Access = maps.Clone(c.Access)
	if c.Access == nil {
		c.Access = map[string]AccessConfig{}
	}
	access := c.Access[string(name)]
	access.Credentials = maps.Clone(access.Credentials)
	if access.Credentials == nil {
		access.Credentials = map[string]ValueConfig{}
	}
	for _, key := range keys {
		access.Credentials[key] = ValueConfig{ValueFile: files[key]}
	}
	c.Access[string(name)] = access
	return c
}

// withLines adds a table to a config: what is in it, where the table is there
// already, and else all of it at the end.
func withLines(config, table string) string {
	header, entries, _ := strings.Cut(table, "\n")
	var text strings.Builder
	there := false
	for line := range strings.Lines(config) {
		text.WriteString(line)
		plain, _, _ := strings.Cut(line, "#")
		if strings.TrimSpace(plain) == header && strings.HasSuffix(line, "\n") && !there {
			there = true
			text.WriteString(entries)
		}
	}
	switch {
	case there:
		return text.String()
	case config == "":
		return table
	}
	return strings.TrimRight(config, "\n") + "\n\n" + table
}

// tried reads a config in a folder of its own.
func tried(dir, text string) (Config, error) {
	scratch, err := os.MkdirTemp(dir, ".try-")
	if err != nil {
		return Config{}, err
	}
	defer func() { _ = os.RemoveAll(scratch) }() // a copy
	if err := os.WriteFile(filepath.Join(scratch, configFile), []byte(text), 0o600); err != nil {
		return Config{}, err
	}
	return LoadConfig(scratch)
}

// checkPlugins lists what is wrong with plugins and what they want.
func (r *Runtime) checkPlugins(ctx context.Context) []Finding {
	found, err := r.plugins()
	if err != nil {
		return []Finding{{"plugins", "fail", err.Error(), ""}}
	}
	var names []string
	var findings []Finding
	for _, f := range found {
		if err := r.unfit(f); err != nil {
			findings = append(findings, Finding{"plugins", "fail", string(f.Name) + ": " + err.Error(), "mend or remove " + f.Dir})
			continue
		}
		names = append(names, string(f.Name))
		findings = append(findings, r.checkPlugin(ctx, f)...)
	}
	findings = append(findings, r.checkAccessNames(found)...)
	return append(findings, Finding{"plugins", "ok", fmt.Sprintf("%d found: %s", len(names), strings.Join(names, ", ")), ""})
}

// checkPlugin tells what a plugin wants that nobody confirmed, and tries to read
// its credentials. It prints none.
func (r *Runtime) checkPlugin(ctx context.Context, f pluginhost.Found) []Finding {
	var findings []Finding
	to := r.reachOf(f)
	for _, c := range f.Manifest.Install.Credentials {
		source, given := to.values[c.Key]
		if !given {
			continue
		}
		if _, err := source.Read(ctx, r.options.Getenv); err != nil {
			findings = append(findings, Finding{"plugin " + string(f.Name), "fail", "credential " + c.Key + ": " + err.Error(), "nacre plugin setup " + string(f.Name)})
		}
	}
	for _, text := range missing(f, to) {
		if !r.inUse(f) {
			break // it came with nacre, and nobody lets an agent use it
		}
		what, fix, _ := strings.Cut(text, ": ")
		findings = append(findings, Finding{"plugin " + string(f.Name), "warn", what, fix})
	}
	return findings
}

// inUse reports whether somebody wants the plugin: it was put there, access was
// given to it, or a group may use it.
func (r *Runtime) inUse(f pluginhost.Found) bool {
	if _, given := r.config.Access[string(f.Name)]; given || filepath.Dir(f.Dir) != r.builtIn() {
		return true
	}
	groups := r.config.groups()
	for name := range r.config.Groups {
		for _, t := range f.Manifest.Provides.Tools {
			if groups.Allows(nacre.Group(name), t.Capability(f.Name, f.Hash)) {
				return true
			}
		}
	}
	return false
}

// checkAccessNames tells of access that reaches no plugin, and of patterns that no
// tool has the name of: a name that was mistyped leaves what was meant without.
func (r *Runtime) checkAccessNames(found []pluginhost.Found) []Finding {
	var findings []Finding
	for _, text := range append(r.idleAccess(found), r.idleTools(found)...) {
		findings = append(findings, Finding{"plugins", "warn", text, "nacre plugin list"})
	}
	if err := r.takenPublishers(found); err != nil {
		findings = append(findings, Finding{"events", "fail", err.Error(), ""})
	}
	return findings
}
