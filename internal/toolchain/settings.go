package toolchain

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/nacre-dev/nacre"
)

const (
	// maxSettings is the largest file of settings that is read, in bytes.
	maxSettings = 256 << 10
	// settingsInside is where sandboxes are shown what is made of them.
	settingsInside = "/opt/nacre/etc"
)

// setting is a file of a package tool's: what the user set on the host that says where
// packages come from, without what is secret.
type setting struct {
	name, target string
	env          []string // the variables that name it, if the tool does not look there
	text         []byte
}

// ShowSettings writes the user's registries of npm, pip and cargo into a new folder, and
// says how a sandbox is shown them (U-05). Tokens, passwords and everything else in
// those files stay on the host, and so does a value that a variable is part of.
func ShowSettings(dir string, getenv func(string) string) (mounts []nacre.Mount, env []string, err error) {
	all := []setting{
		{"npmrc", settingsInside + "/npmrc", []string{"npm_config_globalconfig", "pnpm_config_npmrc_auth_file"}, npmSettings(getenv)},
		{"pip.conf", settingsInside + "/pip.conf", []string{"PIP_CONFIG_FILE"}, pipSettings(getenv)},
		{"cargo.toml", CargoHome + "/" + CargoConfig, nil, cargoSettings(getenv)},
	}
	for _, s := range all {
		if len(s.text) == 0 {
			continue
		}
		file := filepath.Join(dir, s.name)
		err = errors.Join(err, os.MkdirAll(dir, 0o700), os.RemoveAll(file), os.WriteFile(file, s.text, 0o444))
		mounts = append(mounts, nacre.Mount{Kind: nacre.BindReadOnly, Source: file, Target: s.target})
		for _, variable := range s.env {
			env = append(env, variable+"="+s.target)
		}
	}
	return mounts, env, err
}

// settingsFile reads the first file that is there. None is no settings, and so is one that cannot
// be read: the tool on the host says why.
func settingsFile(names ...string) []byte {
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
		if _ = f.Close(); err != nil || len(text) > maxSettings {
			return nil
		}
		return text
	}
	return nil
}

// address is a URL as a sandbox may know it; "" where it is none, or holds a variable.
func address(value string) string {
	value = strings.Trim(strings.TrimSpace(value), `"'`)
	if !strings.HasPrefix(value, "https://") && !strings.HasPrefix(value, "http://") || strings.ContainsAny(value, "$\n\r\"'\\ ") {
		return ""
	}
	return password().ReplaceAllString(value, "$1")
}

// npmSettings are the registries of ~/.npmrc. As npm's global settings, a project's own
// come before them.
func npmSettings(getenv func(string) string) []byte {
	var out bytes.Buffer
	lines := bufio.NewScanner(bytes.NewReader(settingsFile(cmp.Or(getenv("npm_config_userconfig"), filepath.Join(getenv("HOME"), ".npmrc")))))
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), "=")
		key = strings.TrimSpace(key)
		scope, scoped := strings.CutSuffix(key, ":registry")
		if key != "registry" && (!scoped || !strings.HasPrefix(scope, "@")) {
			continue
		}
		if at := address(value); at != "" {
			_, _ = fmt.Fprintf(&out, "%s=%s\n", key, at) // a buffer takes all
		}
	}
	if at := address(getenv("npm_config_registry")); at != "" {
		_, _ = fmt.Fprintf(&out, "registry=%s\n", at)
	}
	return out.Bytes()
}

// pipSettings are the indexes of pip.conf, where people have it, and of the variables.
func pipSettings(getenv func(string) string) []byte {
	home := getenv("HOME")
	file := settingsFile(slices.DeleteFunc([]string{
		getenv("PIP_CONFIG_FILE"), filepath.Join(cmp.Or(getenv("XDG_CONFIG_HOME"), filepath.Join(home, ".config")), "pip/pip.conf"),
		filepath.Join(home, ".pip/pip.conf"), "/etc/pip.conf",
	}, func(name string) bool { return name == "" })...)
	found := map[string][]string{}
	section, key := "", ""
	lines := bufio.NewScanner(bytes.NewReader(file))
	for lines.Scan() {
		line := lines.Text()
		name, value, assigned := strings.Cut(line, "=")
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "" || trimmed[0] == '#' || trimmed[0] == ';':
			continue
		case trimmed[0] == '[':
			section, key = strings.Trim(trimmed, "[]"), ""
			continue
		case line[0] == ' ' || line[0] == '\t': // another value of the key before it
			value = trimmed
		case assigned:
			key = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "_", "-")
		}
		if section == "global" || section == "install" {
			found[key] = append(found[key], strings.Fields(value)...)
		}
	}
	for key, variable := range map[string]string{"index-url": "PIP_INDEX_URL", "extra-index-url": "PIP_EXTRA_INDEX_URL"} {
		if value := getenv(variable); value != "" {
			found[key] = strings.Fields(value)
		}
	}
	var out bytes.Buffer
	for _, key := range []string{"index-url", "extra-index-url"} {
		var values []string
		for _, value := range found[key] {
			if at := address(value); at != "" {
				values = append(values, strings.ReplaceAll(at, "%", "%%")) // pip interpolates
			}
		}
		if len(values) > 0 {
			_, _ = fmt.Fprintf(&out, "%s = %s\n", key, strings.Join(values, "\n  ")) // a buffer takes all
		}
	}
	if out.Len() == 0 {
		return nil
	}
	return append([]byte("[global]\n"), out.Bytes()...)
}

// cargoFile is what cargo's settings say of where crates come from.
type cargoFile struct {
	Source     map[string]cargoSource   `toml:"source,omitempty"`
	Registries map[string]cargoRegistry `toml:"registries,omitempty"`
	Registry   struct {
		Default string `toml:"default,omitempty"`
	} `toml:"registry,omitempty"`
}

type cargoSource struct {
	Registry    string `toml:"registry,omitempty"`
	ReplaceWith string `toml:"replace-with,omitempty"`
}

type cargoRegistry struct {
	Index    string `toml:"index,omitempty"`
	Protocol string `toml:"protocol,omitempty"`
}

// readCargo reads the registries of cargo's own settings; false where there are none.
func readCargo(getenv func(string) string) (cargoFile, bool) {
	home := cmp.Or(getenv("CARGO_HOME"), filepath.Join(getenv("HOME"), ".cargo"))
	text := settingsFile(filepath.Join(home, "config"), filepath.Join(home, CargoConfig))
	var c cargoFile
	if _, err := toml.Decode(string(text), &c); err != nil {
		return cargoFile{}, false // cargo on the host says why
	}
	for name, s := range c.Source {
		if s.Registry = sparse(s.Registry); s == (cargoSource{}) {
			delete(c.Source, name)
			continue
		}
		c.Source[name] = s
	}
	for name, r := range c.Registries {
		if r.Index = sparse(r.Index); r == (cargoRegistry{}) {
			delete(c.Registries, name)
			continue
		}
		c.Registries[name] = r
	}
	return c, len(c.Source)+len(c.Registries) > 0 || c.Registry.Default != ""
}

// sparse is the URL of an index as a sandbox may know it.
func sparse(index string) string {
	bare, is := strings.CutPrefix(index, "sparse+")
	at := address(bare)
	if is && at != "" {
		return "sparse+" + at
	}
	return at
}

func cargoSettings(getenv func(string) string) []byte {
	c, set := readCargo(getenv)
	if !set {
		return nil
	}
	var out bytes.Buffer
	if toml.NewEncoder(&out).Encode(c) != nil {
		return nil
	}
	return out.Bytes()
}

// crateIndex is whom cargo asks for crates first.
func crateIndex(getenv func(string) string) string {
	c, _ := readCargo(getenv)
	name := "crates-io"
	for range len(c.Source) { // a chain of replacements ends, or cargo refuses it
		if c.Source[name].ReplaceWith == "" {
			break
		}
		name = c.Source[name].ReplaceWith
	}
	index := c.Source[name].Registry
	if index == "" {
		index = c.Registries[name].Index
	}
	if index == "" {
		return CrateIndex
	}
	return strings.TrimPrefix(index, "sparse+")
}
