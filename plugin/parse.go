package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
)

// Limits of a manifest.
const (
	MaxManifest = 1 << 20 // bytes
	maxTools    = 256
	maxText     = 2000 // bytes of any text
	maxListed   = 64   // channels, hosts, subscriptions, credentials, argv
	maxWindow   = 24 * time.Hour
	maxDeadline = time.Hour
)

var (
	channelForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`) })
	topicForm   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*(\.[a-z0-9_-]+)*\.?$`) })
	hostForm    = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^\*$|^(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(:[0-9]{1,5})?$`)
	})
	keyForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`) })
)

// ParseManifest reads a manifest.json of at most [MaxManifest] bytes. A key
// that is unknown, comes twice or differs in case from a known one is an error
// that names it, as is a value of the wrong type (D-20). The file is named by
// the caller.
func ParseManifest(data []byte) (Manifest, error) {
	if len(data) > MaxManifest {
		return Manifest{}, fmt.Errorf("manifest of %d bytes: at most %d", len(data), MaxManifest)
	}
	if err := checkJSON(data); err != nil {
		return Manifest{}, err
	}
	var m Manifest
	err := readObject(data, "", fields{
		"description":   text(&m.Description),
		"version":       semver(&m.Version),
		"app_compat":    versionRange(&m.AppCompat),
		"author":        author(&m.Author),
		"provides":      provides(&m.Provides),
		"subscribes":    formed(&m.Subscribes, topicForm, "an event topic or its prefix, such as message.inbound"),
		"config_schema": schema(&m.ConfigSchema),
		"handler":       argv(&m.Handler),
		"mcp":           server(&m.MCP),
		"hosts":         formed(&m.Hosts, hostForm, `a lower-case host name, optionally with :port, or "*" for those that the operator names`),
		"project":       project(&m.Project),
		"listen":        boolean(&m.Listen),
		"once":          boolean(&m.Once),
		"verify":        boolean(&m.Verify),
		"install":       install(&m.Install),
	})
	if err == nil && m.Description == "" {
		err = errors.New("description is missing: say in a sentence what the plugin does")
	}
	if err == nil && m.Version == "" {
		err = errors.New("version is missing: use one such as 1.0.0")
	}
	if err == nil {
		err = coherent(m)
	}
	return m, err
}

func author(to *Author) reader {
	return object(fields{"name": text(&to.Name), "url": text(&to.URL)})
}

func provides(to *Provides) reader {
	return object(fields{
		"channels": formed(&to.Channels, channelForm, "1–64 lower-case letters, digits, _ or -"),
		"hooks":    hooks(&to.Hooks),
		"tools":    tools(&to.Tools),
	})
}

func hooks(to *[]string) reader {
	return func(raw json.RawMessage, path string) error {
		if err := list(to)(raw, path); err != nil {
			return err
		}
		for i, hook := range *to {
			if hook != HookMemoryBrief {
				return fmt.Errorf("%s[%d]: unknown hook %.40q: the only one is %s", path, i, hook, HookMemoryBrief)
			}
		}
		return nil
	}
}

func tools(to *[]ToolSpec) reader {
	return func(raw json.RawMessage, path string) error {
		err := readArray(raw, path, maxTools, func(raw json.RawMessage, path string) error {
			t, err := tool(raw, path)
			*to = append(*to, t)
			return err
		})
		if err != nil {
			return err
		}
		seen := map[nacre.ToolName]bool{}
		for i, t := range *to {
			if seen[t.Name] {
				return fmt.Errorf("%s[%d].name: tool %s is declared twice", path, i, t.Name)
			}
			seen[t.Name] = true
		}
		return nil
	}
}

func tool(raw json.RawMessage, path string) (ToolSpec, error) {
	t := ToolSpec{Safety: nacre.Write, Sensitivity: nacre.SensitiveNone}
	var name, risk string
	err := readObject(raw, path, fields{
		"name":             text(&name),
		"description":      text(&t.Description),
		"risk_level":       text(&risk),
		"arguments_schema": schema(&t.ArgumentsSchema),
		"safety_class":     enum(&t.Safety),
		"sensitivity":      enum(&t.Sensitivity),
		"rate_limit":       rate(&t.Rate),
		"deadline_seconds": deadline(&t.Deadline),
		"returns":          enum(&t.Returns),
		"sinks":            sinks(&t.Values),
		"text":             list(&t.Text),
		"mints":            list(&t.Mints),
		"authors":          list(&t.Authors),
		"senders":          list(&t.Senders),
		"files":            list(&t.Files),
		"file_bytes":       fileBytes(&t.FileBytes),
	})
	if err != nil {
		return t, err
	}
	if t.Name, err = nacre.ParseToolName(name); err != nil {
		return t, fmt.Errorf("%s.name: %w", path, err)
	}
	switch risk {
	case "", "low":
	case "high":
		t.HighRisk = true
	default:
		return t, fmt.Errorf("%s.risk_level: %.40q is neither low nor high", path, risk)
	}
	if t.Description == "" {
		return t, fmt.Errorf("%s.description is missing: the agent chooses tools by it", path)
	}
	if t.ArgumentsSchema == nil {
		return t, fmt.Errorf(`%s.arguments_schema is missing: use {"type":"object","additionalProperties":false} for a tool without arguments`, path)
	}
	if err := checkNamed(t, path, "sinks", t.Sinks); err != nil {
		return t, err
	}
	if err := checkNamed(t, path, "text", t.Text); err != nil {
		return t, err
	}
	if t.FileBytes > 0 && len(t.Files) == 0 {
		return t, fmt.Errorf("%s.file_bytes: no argument names a file: list it in files, or leave the key out", path)
	}
	return t, checkNamed(t, path, "files", t.Files)
}

// fileBytes reads how much the files of a call hold.
func fileBytes(to *int64) reader {
	return func(raw json.RawMessage, path string) error {
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil || n < 1 || n > MaxFileBytes {
			return fmt.Errorf("%s: write a whole number of bytes from 1 to %d", path, MaxFileBytes)
		}
		*to = n
		return nil
	}
}

// sinks reads the names of sinks, or their names with the kinds of their values.
func sinks(to *nacre.Values) reader {
	return func(raw json.RawMessage, path string) error {
		if len(raw) == 0 || raw[0] != '{' {
			return list(&to.Sinks)(raw, path)
		}
		var names map[string]json.RawMessage
		if err := json.Unmarshal(raw, &names); err != nil || len(names) > maxListed {
			return fmt.Errorf("%s: use up to %d arguments, each with the kind of its value", path, maxListed)
		}
		to.Kinds = make(map[string]nacre.ValueKind, len(names))
		for _, name := range slices.Sorted(maps.Keys(names)) {
			var kind nacre.ValueKind
			if err := enum(&kind)(names[name], path+"."+name); err != nil {
				return err
			}
			to.Sinks, to.Kinds[name] = append(to.Sinks, name), kind
		}
		return nil
	}
}

// checkNamed refuses a sink or a file that names no argument: a misspelt one
// would silently guard nothing.
func checkNamed(t ToolSpec, path, key string, named []string) error {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(t.ArgumentsSchema, &s); err != nil {
		return fmt.Errorf("%s.arguments_schema.properties: not an object", path)
	}
	for i, name := range named {
		top, _, _ := strings.Cut(name, ".")
		if _, ok := s.Properties[top]; !ok {
			return fmt.Errorf("%s.%s[%d]: %.40q is not a property of arguments_schema", path, key, i, name)
		}
	}
	return nil
}

func rate(to *nacre.RateLimit) reader {
	return func(raw json.RawMessage, path string) error {
		var seconds int
		err := readObject(raw, path, fields{
			"calls":   integer(&to.Calls, 1_000_000),
			"seconds": integer(&seconds, int(maxWindow/time.Second)),
		})
		if err != nil {
			return err
		}
		if to.Calls < 1 || seconds < 1 {
			return fmt.Errorf(`%s: needs both keys, such as {"calls": 10, "seconds": 60}`, path)
		}
		to.Window = time.Duration(seconds) * time.Second
		return nil
	}
}

// deadline reads how long one call may take.
func deadline(to *time.Duration) reader {
	return func(raw json.RawMessage, path string) error {
		seconds, err := strconv.Atoi(string(raw))
		*to = time.Duration(seconds) * time.Second
		if err != nil || *to < time.Second || *to > maxDeadline {
			return fmt.Errorf("%s: write a whole number of seconds from 1 to %d, or leave the key out for the operator's default", path, int(maxDeadline/time.Second))
		}
		return nil
	}
}

func argv(to *[]string) reader {
	return func(raw json.RawMessage, path string) error {
		if err := list(to)(raw, path); err != nil {
			return err
		}
		if len(*to) == 0 || slices.Contains(*to, "") {
			return fmt.Errorf(`%s: needs a program and its arguments, such as ["python3", "handler.py"]`, path)
		}
		return nil
	}
}

func install(to *Install) reader {
	return object(fields{"credentials": func(raw json.RawMessage, path string) error {
		return readArray(raw, path, maxListed, func(raw json.RawMessage, path string) error {
			c, err := credential(raw, path)
			to.Credentials = append(to.Credentials, c)
			return err
		})
	}})
}

func credential(raw json.RawMessage, path string) (Credential, error) {
	var c Credential
	err := readObject(raw, path, fields{
		"key":         text(&c.Key),
		"description": text(&c.Description),
		"required":    boolean(&c.Required),
		"obtain_url":  text(&c.ObtainURL),
		"format_hint": text(&c.FormatHint),
	})
	if err != nil {
		return c, err
	}
	if !keyForm().MatchString(c.Key) {
		return c, fmt.Errorf("%s.key: %.40q: use 1–64 letters, digits, _ . or -, starting with a letter", path, c.Key)
	}
	if c.ObtainURL != "" {
		if u, err := url.Parse(c.ObtainURL); err != nil || u.Scheme != "https" || u.Host == "" {
			return c, fmt.Errorf("%s.obtain_url: use an https address", path)
		}
	}
	return c, nil
}
