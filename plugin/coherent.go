package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// maxAddress is the longest address of an MCP server, in bytes.
const maxAddress = 2000

func server(to *MCP) reader {
	return func(raw json.RawMessage, path string) error {
		err := readObject(raw, path, fields{
			"command": argv(&to.Command), "url": text(&to.URL), "credential": text(&to.Credential), "env": variables(&to.Env),
		})
		switch {
		case err != nil:
			return err
		case (len(to.Command) > 0) == (to.URL != ""):
			return fmt.Errorf(`%s: needs exactly one of the keys command, such as ["node", "server.js"], and url`, path)
		case to.URL == "" && to.Credential != "":
			return fmt.Errorf("%s.credential: is for a server with url: use env, such as {\"API_KEY\": %q}", path, to.Credential)
		case to.URL != "" && to.Env != nil:
			return fmt.Errorf("%s.env: is for a server with command: use credential", path)
		case to.URL == "":
			return nil
		}
		if err := checkAddress(to.URL); err != nil {
			return fmt.Errorf("%s.url: %w", path, err)
		}
		return nil
	}
}

// variableForm is a name of an environment variable that a server may be given.
var variableForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`) })

// variables reads names of environment variables with keys of credentials.
func variables(to *map[string]string) reader {
	return func(raw json.RawMessage, path string) error {
		names, err := keys(raw, path)
		if err != nil {
			return err
		}
		*to = map[string]string{}
		allowed := fields{}
		for _, name := range names {
			if !variableForm().MatchString(name) || isHosts(name) {
				return fmt.Errorf("%s: %.80q is no name for a credential: use capital letters, digits and _, and none that programs themselves are started by", path, name)
			}
			allowed[name] = func(raw json.RawMessage, path string) error {
				var key string
				err := text(&key)(raw, path)
				(*to)[name] = key
				return err
			}
		}
		if len(names) == 0 {
			return fmt.Errorf(`%s: is empty: name variables with keys of install.credentials, such as {"API_KEY": "token"}, or leave it out`, path)
		}
		return readObject(raw, path, allowed)
	}
}

// isHosts reports whether a variable is the host's to set, or changes what runs.
func isHosts(name string) bool {
	for _, own := range []string{"NACRE", "LD_", "DYLD_", "PYTHON", "NODE_", "GODEBUG", "BASH_"} {
		if strings.HasPrefix(name, own) {
			return true
		}
	}
	return strings.HasSuffix(name, "_PROXY") || slices.Contains([]string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "TERM", "ENV", "IFS", "GIT_TERMINAL_PROMPT", "GOCACHE",
	}, name)
}

// checkAddress refuses an address that would carry a secret in the clear, or in itself.
func checkAddress(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Hostname() == "" || len(address) > maxAddress:
		return errors.New("is no address: use one such as https://mcp.example.com/mcp")
	case u.User != nil || u.Fragment != "":
		return errors.New("has a user, a password or a fragment: use the key credential")
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		return errors.New("begins with https://, or with http:// for a server on this machine")
	}
	return nil
}

func loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

func project(to *Project) reader {
	return func(raw json.RawMessage, path string) error {
		var access string
		if err := text(&access)(raw, path); err != nil {
			return err
		}
		*to = Project(access)
		if *to != ProjectRead && *to != ProjectWrite {
			return fmt.Errorf("%s: %.40q is neither %s nor %s: leave the key out where the handler needs no project", path, access, ProjectRead, ProjectWrite)
		}
		return nil
	}
}

// coherent refuses keys that make no sense beside each other.
func coherent(m Manifest) error {
	isMCP := len(m.MCP.Command) > 0 || m.MCP.URL != ""
	switch {
	case isMCP && len(m.Handler) > 0:
		return errors.New("handler and mcp are both there: an MCP server is the handler, so leave handler out")
	case isMCP && len(m.Provides.Tools) == 0:
		return errors.New("mcp: provides.tools is empty: list the tools of the server that are used, with their schemas")
	case isMCP && len(m.Provides.Channels)+len(m.Provides.Hooks)+len(m.Subscribes) > 0:
		return errors.New("mcp: an MCP server has tools only: leave out provides.channels, provides.hooks and subscribes")
	case isMCP && m.ConfigSchema != nil:
		return errors.New("config_schema: an MCP server takes no configuration: leave the key out")
	case isMCP && slices.ContainsFunc(m.Provides.Tools, func(t ToolSpec) bool { return len(t.Files) > 0 }):
		return errors.New("files: an MCP server is given no files with a call: leave the key out of provides.tools")
	case m.MCP.URL != "" && m.Project != ProjectNone:
		return errors.New("project: a server with mcp.url sees no folder: leave the key out")
	case m.Listen && len(m.Provides.Channels) == 0:
		return errors.New("listen: is for a plugin that serves a channel: name it in provides.channels, or leave the key out")
	case m.Once && (m.Listen || len(m.Provides.Channels) == 0):
		return errors.New("once: is for a plugin that serves a channel and takes no connections: name it in provides.channels and leave listen out, or leave the key out")
	}
	if key := m.MCP.Credential; key != "" && !m.lists(key) {
		return fmt.Errorf("mcp.credential: %.80q is not a key of install.credentials: list it there", key)
	}
	for _, name := range slices.Sorted(maps.Keys(m.MCP.Env)) {
		if key := m.MCP.Env[name]; !m.lists(key) {
			return fmt.Errorf("mcp.env.%s: %.80q is not a key of install.credentials: list it there", name, key)
		}
	}
	if m.MCP.URL != "" {
		return checkListed(m)
	}
	return nil
}

// lists reports whether a key is one of install.credentials.
func (m Manifest) lists(key string) bool {
	return slices.ContainsFunc(m.Install.Credentials, func(c Credential) bool { return c.Key == key })
}

// checkListed makes the address of a server one that the operator is asked about.
func checkListed(m Manifest) error {
	u, err := url.Parse(m.MCP.URL)
	if err != nil {
		return fmt.Errorf("mcp.url: %w", err)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	name := strings.ToLower(u.Hostname())
	for _, host := range m.Hosts {
		listed, listedPort, err := net.SplitHostPort(host)
		if err != nil {
			listed, listedPort = host, "443"
		}
		suffix, wild := strings.CutPrefix(listed, "*.")
		if host == AnyHost || listedPort == port && (listed == name || wild && strings.HasSuffix(name, "."+suffix)) {
			return nil
		}
	}
	return fmt.Errorf("mcp.url: its host is not among hosts: add %q there", net.JoinHostPort(name, port))
}
