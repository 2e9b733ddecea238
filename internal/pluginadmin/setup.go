package pluginadmin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/access"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/configfile"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/plugin"
)

// PluginCredential is a credential that a plugin wants (D-29).
type PluginCredential struct {
	plugin.Credential
	// From says where its value is, if the config says so.
	From string
}

// PluginCredentials are those that a plugin's manifest lists.
func PluginCredentials(inst *installation.Installation, name nacre.PluginName) ([]PluginCredential, error) {
	f, err := access.Named(inst, name)
	if err == nil && f.Err != nil {
		err = config.Errorf("plugin %s: %w", name, f.Err)
	}
	if err != nil {
		return nil, err
	}
	to := access.ReachOf(inst, f)
	var list []PluginCredential
	for _, c := range f.Manifest.Install.Credentials {
		one := PluginCredential{Credential: c}
		if source, ok := to.Values[c.Key]; ok {
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
func CredentialWants(ctx context.Context, inst *installation.Installation, names []nacre.PluginName) ([]CredentialWant, error) {
	found, err := access.Plugins(inst)
	if err != nil {
		return nil, err
	}
	var wants []CredentialWant
	for _, f := range found {
		if f.Err != nil || len(names) > 0 && !slices.Contains(names, f.Name) || len(names) == 0 && !inUse(inst, f) {
			continue
		}
		to := access.ReachOf(inst, f)
		for _, c := range f.Manifest.Install.Credentials {
			want := CredentialWant{Plugin: f.Name, PluginCredential: PluginCredential{Credential: c}, Problem: "nobody gave it"}
			if source, given := to.Values[c.Key]; given {
				_, err := source.Read(ctx, inst.Options.Getenv)
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
func StoreCredential(ctx context.Context, inst *installation.Installation, name nacre.PluginName, key string, value nacre.Secret) (string, error) {
	dir := filepath.Join(inst.Registry.Paths().Config, config.CredentialsDir, string(name))
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
	if _, err := (lease.Value{ValueFile: tried.Name()}).Source().Read(ctx, inst.Options.Getenv); err != nil {
		return "", config.Errorf("credential %s: %s", key, strings.TrimPrefix(err.Error(), "the file "+tried.Name()+": "))
	}
	return path, os.Rename(tried.Name(), path)
}

// AccessLines are what config.toml has to say for a plugin to have credentials,
// given the files that they are in, in the order of keys.
func AccessLines(name nacre.PluginName, keys []string, files map[string]string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "[access.%s.credentials]\n", name)
	for _, key := range keys {
		fmt.Fprintf(&text, "%s = { value_file = %s }\n", configfile.Quote(key), configfile.Quote(files[key]))
	}
	return text.String()
}

// AddAccess makes config.toml say where files with a plugin's credentials are, and
// reports whether it did. What would not load, or would say anything else than
// before, is not written, and neither is a file that is a link, which lies
// elsewhere for a reason.
func AddAccess(inst *installation.Installation, name nacre.PluginName, keys []string, files map[string]string) (bool, error) {
	dir := inst.Registry.Paths().Config
	was, err := config.Load(dir)
	if err != nil {
		return false, err
	}
	return configfile.Change(dir, withCredentials(was, name, keys, files), func(text string) string {
		return withLines(text, AccessLines(name, keys, files))
	})
}

// withCredentials is the config with more of a plugin's credentials in files.
func withCredentials(c config.Config, name nacre.PluginName, keys []string, files map[string]string) config.Config {
	c.Access = maps.Clone(c.Access)
	if c.Access == nil {
		c.Access = map[string]config.Access{}
	}
	access := c.Access[string(name)]
	access.Credentials = maps.Clone(access.Credentials)
	if access.Credentials == nil {
		access.Credentials = map[string]lease.Value{}
	}
	for _, key := range keys {
		access.Credentials[key] = lease.Value{ValueFile: files[key]}
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
	if there {
		return text.String()
	}
	return configfile.Append(config, table)
}

// CheckPlugins lists what is wrong with plugins and what they want.
func CheckPlugins(ctx context.Context, inst *installation.Installation) []installation.Finding {
	found, err := access.Plugins(inst)
	if err != nil {
		return []installation.Finding{{Name: "plugins", Status: "fail", Text: err.Error(), Fix: ""}}
	}
	var names []string
	var findings []installation.Finding
	for _, f := range found {
		if err := unfit(inst, f); err != nil {
			findings = append(findings, setAside(inst, f, installation.Finding{Name: "plugins", Status: "fail", Text: string(f.Name) + ": " + err.Error(), Fix: "mend or remove " + f.Dir}))
			continue
		}
		names = append(names, string(f.Name))
		findings = append(findings, checkPlugin(ctx, inst, f)...)
	}
	findings = append(findings, checkAccessNames(inst, found)...)
	text := "none is found in " + strings.Join(access.Folders(inst), " or ")
	if len(names) > 0 {
		text = fmt.Sprintf("%d found: %s", len(names), strings.Join(names, ", "))
	}
	return append(findings, installation.Finding{Name: "plugins", Status: "ok", Text: text, Fix: ""})
}

// setAside offers to take a plugin out of the way of what it collides with: its folder is kept beside those
// of the plugins. A person chooses which of two. What was installed goes with nacre plugin remove, and what
// came with nacre stays.
func setAside(inst *installation.Installation, f pluginhost.Found, finding installation.Finding) installation.Finding {
	var collides *pluginhost.Collision
	info, err := os.Lstat(f.Dir)
	if !errors.As(f.Err, &collides) || filepath.Dir(f.Dir) == access.BuiltIn(inst) || err != nil || !info.IsDir() {
		return finding
	}
	away := filepath.Join(filepath.Dir(filepath.Dir(f.Dir)), "plugins.aside", string(f.Name)+"-"+inst.Options.Now().UTC().Format("20060102T150405"))
	finding.Choice, finding.Offer = true, "set plugin "+string(f.Name)+" aside: its folder is kept as "+away
	finding.Moot = func() bool {
		found, err := access.Plugins(inst)
		return err == nil && !slices.ContainsFunc(found, func(now pluginhost.Found) bool { return now.Dir == f.Dir && unfit(inst, now) != nil })
	}
	finding.Repair = func(context.Context, func(string)) error {
		if err := os.MkdirAll(filepath.Dir(away), 0o700); err != nil {
			return err
		}
		return os.Rename(f.Dir, away)
	}
	return finding
}

// checkPlugin tells what a plugin wants that nobody confirmed, and tries to read
// its credentials. It prints none.
func checkPlugin(ctx context.Context, inst *installation.Installation, f pluginhost.Found) []installation.Finding {
	var findings []installation.Finding
	to := access.ReachOf(inst, f)
	for _, c := range f.Manifest.Install.Credentials {
		source, given := to.Values[c.Key]
		if !given {
			continue
		}
		if _, err := source.Read(ctx, inst.Options.Getenv); err != nil {
			findings = append(findings, installation.Finding{Name: "plugin " + string(f.Name), Status: "fail", Text: "credential " + c.Key + ": " + err.Error(), Fix: "nacre plugin setup " + string(f.Name)})
		}
	}
	for _, text := range missing(f, to) {
		if !inUse(inst, f) {
			break // it came with nacre, and nobody lets an agent use it
		}
		if strings.Contains(text, optional) {
			continue // it works without, and nacre plugin show lists it
		}
		what, fix, _ := strings.Cut(text, ": ")
		findings = append(findings, installation.Finding{Name: "plugin " + string(f.Name), Status: "warn", Text: what, Fix: fix})
	}
	return findings
}

// inUse reports whether somebody wants the plugin: it was put there, access was
// given to it, or a group may use it.
func inUse(inst *installation.Installation, f pluginhost.Found) bool {
	if _, given := inst.Config.Access[string(f.Name)]; given || filepath.Dir(f.Dir) != access.BuiltIn(inst) {
		return true
	}
	groups := access.ToolGroups(inst, inst.Options.Now())
	for name := range groups {
		for _, t := range f.Manifest.Provides.Tools {
			if groups.Allows(name, t.Capability(f.Name, f.Hash)) {
				return true
			}
		}
	}
	return false
}

// checkAccessNames tells of access that reaches no plugin, and of patterns that no
// tool has the name of: a name that was mistyped leaves what was meant without.
func checkAccessNames(inst *installation.Installation, found []pluginhost.Found) []installation.Finding {
	var findings []installation.Finding
	for _, text := range access.Idle(inst, found) {
		findings = append(findings, installation.Finding{Name: "plugins", Status: "warn", Text: text, Fix: "nacre plugin list"})
	}
	if err := access.TakenPublishers(inst, found); err != nil {
		findings = append(findings, installation.Finding{Name: "events", Status: "fail", Text: err.Error(), Fix: ""})
	}
	return findings
}
