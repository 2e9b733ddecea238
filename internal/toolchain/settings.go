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
	"github.com/nacre-dev/nacre/internal/hostpath"
)

const (
	// maxSettings is the largest file of settings that is read, in bytes.
	maxSettings = 256 << 10
	// maxAuthorities is the largest file of authorities that is read, in bytes.
	maxAuthorities = 16 << 20
	// settingsInside is where sandboxes are shown what is made of them.
	settingsInside = "/opt/nacre/etc"
	// npmTrust, pipTrust and cargoTrust are where they are shown whom those tools trust.
	npmTrust, pipTrust, cargoTrust = settingsInside + "/npm.pem", settingsInside + "/pip.pem", settingsInside + "/cargo.pem"
)

// setting is a file of a package tool's: what the user set on the host that says where
// packages come from, without what is secret.
type setting struct {
	name, target string
	env          []string // the variables that name it, if the tool does not look there
	text         []byte
}

// ShowSettings writes what the user has set of npm, pip, cargo and Node into a new folder, and says how a sandbox
// is shown it (U-05). It is their registries, and the authorities that they are told to trust. Tokens, passwords, keys
// and everything else in those files stay on the host, and so does a value that a variable is part of.
func ShowSettings(dir string, getenv func(string) string) (mounts []nacre.Mount, env []string, err error) {
	npm, npmTrusts := npmSettings(getenv)
	pip, pipTrusts := pipSettings(getenv)
	cargo, cargoTrusts := cargoSettings(getenv)
	all := []setting{
		{"npmrc", settingsInside + "/npmrc", []string{"npm_config_globalconfig", "pnpm_config_npmrc_auth_file"}, npm},
		{"npm.pem", npmTrust, nil, npmTrusts},
		{"node.pem", settingsInside + "/node.pem", []string{"NODE_EXTRA_CA_CERTS"}, authorities(getenv, getenv("NODE_EXTRA_CA_CERTS"))},
		{"pip.conf", settingsInside + "/pip.conf", []string{"PIP_CONFIG_FILE"}, pip},
		{"pip.pem", pipTrust, nil, pipTrusts},
		{"cargo.toml", CargoHome + "/" + CargoConfig, nil, cargo},
		{"cargo.pem", cargoTrust, nil, cargoTrusts},
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

// host is the name or address of a host, with a port or without; "" where it is anything else.
func host(value string) string {
	if strings.IndexFunc(value, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-._:[]", c)
	}) >= 0 {
		return ""
	}
	return value
}

// authorities are the certificates of a file that the user has told a tool to trust; none where it cannot be read.
func authorities(getenv func(string) string, name string) []byte {
	if below, ok := strings.CutPrefix(name, "~/"); ok {
		name = filepath.Join(getenv("HOME"), below)
	}
	if info, err := os.Stat(name); err != nil || !filepath.IsAbs(name) || !info.Mode().IsRegular() || info.Size() > maxAuthorities {
		return nil // the folder that nacre is started in says nothing, and a pipe would be waited for
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	return certificates(text)
}

const (
	certificateBegins = "-----BEGIN CERTIFICATE-----"
	certificateEnds   = "-----END CERTIFICATE-----"
	// certificateHolds is all that may stand between them: base64, in lines.
	certificateHolds = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/= \t\r\n"
)

// certificates leaves out of text what is no certificate in PEM. It decodes none: a system has some 140, which every
// start would wait for.
func certificates(text []byte) []byte {
	all := make([]byte, 0, len(text)+1)
	for {
		_, after, found := bytes.Cut(text, []byte(certificateBegins))
		if !found {
			return all
		}
		text = bytes.TrimLeft(after, certificateHolds)
		if bytes.HasPrefix(text, []byte(certificateEnds)) {
			all = fmt.Appendf(all, "%s%s%s\n", certificateBegins, after[:len(after)-len(text)], certificateEnds)
		}
	}
}

// npmSettings are the registries of ~/.npmrc, and whom npm trusts. As npm's global settings, a project's own
// come before them, and they stand in the place of those that all users of this machine have.
func npmSettings(getenv func(string) string) (text, trusts []byte) {
	variable := func(name string) string {
		return cmp.Or(getenv("npm_config_"+name), getenv("NPM_CONFIG_"+strings.ToUpper(name)))
	}
	var out bytes.Buffer
	put := func(key, value string) {
		if at := address(value); at != "" {
			_, _ = fmt.Fprintf(&out, "%s=%s\n", key, at) // a buffer takes all
		}
	}
	settings := func(file string) (cafile string) {
		for line := range strings.Lines(string(settingsFile(file))) {
			key, value, _ := strings.Cut(line, "=")
			switch key = strings.TrimSpace(key); {
			case key == "registry" || strings.HasPrefix(key, "@") && strings.HasSuffix(key, ":registry"):
				put(key, value)
			case key == "cafile":
				cafile = strings.Trim(strings.TrimSpace(value), `"'`)
			}
		}
		return cafile
	}
	everyones := settings(npmEveryones(variable("globalconfig")))
	shared := out.Len()
	own := settings(cmp.Or(variable("userconfig"), filepath.Join(getenv("HOME"), ".npmrc")))
	put("registry", variable("registry"))
	if own = cmp.Or(variable("cafile"), own); own == "" && out.Len() == shared {
		return nil, nil // npm inside finds what all users have
	}
	if trusts = authorities(getenv, cmp.Or(own, everyones)); len(trusts) > 0 {
		_, _ = fmt.Fprintf(&out, "cafile=%s\n", npmTrust) // a buffer takes all
	}
	return out.Bytes(), trusts
}

// npmEveryones is the file with npm's settings for all users: the one that is named, or the one in the folder that
// Node is in.
func npmEveryones(named string) string {
	node, err := hostpath.LookPath("node")
	if err == nil {
		node, err = filepath.EvalSymlinks(node)
	}
	if named != "" || err != nil {
		return named
	}
	return filepath.Join(filepath.Dir(filepath.Dir(node)), "etc/npmrc")
}

// pipSettings are the indexes of pip.conf, where people have it, and of the variables, and whom pip trusts.
func pipSettings(getenv func(string) string) (text, trusts []byte) {
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
		case trimmed[0] == '[' && (key == "" || line[0] == '['):
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
	for key, variable := range map[string]string{"index-url": "PIP_INDEX_URL", "extra-index-url": "PIP_EXTRA_INDEX_URL", "trusted-host": "PIP_TRUSTED_HOST", "cert": "PIP_CERT"} {
		if value := getenv(variable); value != "" {
			found[key] = strings.Fields(value)
		}
	}
	var out bytes.Buffer
	for _, shown := range []struct {
		key string
		as  func(value string) string
	}{{"index-url", address}, {"extra-index-url", address}, {"trusted-host", host}} { // pip asks no index by http whose host is not trusted
		var values []string
		for _, value := range found[shown.key] {
			if at := shown.as(value); at != "" {
				values = append(values, strings.ReplaceAll(at, "%", "%%")) // pip interpolates
			}
		}
		if len(values) > 0 {
			_, _ = fmt.Fprintf(&out, "%s = %s\n", shown.key, strings.Join(values, "\n  ")) // a buffer takes all
		}
	}
	if trusts = authorities(getenv, strings.Join(found["cert"], " ")); len(trusts) > 0 {
		_, _ = fmt.Fprintf(&out, "cert = %s\n", pipTrust) // a buffer takes all
	}
	if out.Len() == 0 {
		return nil, nil
	}
	return append([]byte("[global]\n"), out.Bytes()...), trusts
}

// cargoFile is what cargo's settings say of where crates come from, and of whom it trusts.
type cargoFile struct {
	Source     map[string]cargoSource   `toml:"source,omitempty"`
	Registries map[string]cargoRegistry `toml:"registries,omitempty"`
	Registry   struct {
		Default string `toml:"default,omitempty"`
	} `toml:"registry,omitempty"`
	HTTP struct {
		CAInfo string `toml:"cainfo,omitempty"`
	} `toml:"http,omitempty"`
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
	c.HTTP.CAInfo = cmp.Or(getenv("CARGO_HTTP_CAINFO"), c.HTTP.CAInfo)
	return c, len(c.Source)+len(c.Registries) > 0 || c.Registry.Default != "" || c.HTTP.CAInfo != ""
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

func cargoSettings(getenv func(string) string) (text, trusts []byte) {
	c, set := readCargo(getenv)
	if !set {
		return nil, nil
	}
	if trusts = authorities(getenv, c.HTTP.CAInfo); len(trusts) > 0 {
		c.HTTP.CAInfo = cargoTrust
	} else {
		c.HTTP.CAInfo = ""
	}
	var out bytes.Buffer
	if toml.NewEncoder(&out).Encode(c) != nil {
		return nil, nil
	}
	return out.Bytes(), trusts
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
