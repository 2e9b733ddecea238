package plugintest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/schema"
	"github.com/nacre-dev/nacre/plugin"
)

// Limits of a plugin's folder, as the host has them.
const (
	maxFiles      = 10_000
	maxFolder     = 512 << 20 // bytes
	maxSkillFiles = 16
	maxSkillFile  = 256 << 10 // bytes
	maxFindings   = 100
)

const manifestFile = "manifest.json"

// Finding is one thing that is wrong with a plugin, or worth a look.
type Finding struct {
	// Warning is set where the plugin works all the same.
	Warning bool   `json:"warning"`
	File    string `json:"file,omitempty"`
	Key     string `json:"key,omitempty"`
	Text    string `json:"text"`
	Fix     string `json:"fix,omitempty"`
}

// Place is the installation that a plugin is held against.
type Place struct {
	// Version is nacre's own.
	Version string
	// Name is the plugin's; empty means that of its folder.
	Name nacre.PluginName
	// Installed are the plugins that are there already. One of the same name is
	// the one that this would replace.
	Installed []pluginhost.Found
	// Own are nacre's own tools.
	Own []nacre.ToolName
}

// Validate finds what can be known of a plugin's folder without running it: all
// of it at once. Nothing found means that the host will take it.
func Validate(dir string, at Place) []Finding {
	v := &validator{at: at}
	abs, err := filepath.Abs(dir)
	if err != nil {
		abs = dir
	}
	v.dir, v.name = abs, cmp.Or(at.Name, nacre.PluginName(filepath.Base(abs)))
	info, err := os.Stat(abs)
	if err != nil || !info.IsDir() {
		v.wrong("", "", "name the folder that holds "+manifestFile, "%s is not a folder", dir)
		return v.found
	}
	if _, err := nacre.ParsePluginName(string(v.name)); err != nil {
		v.wrong("", "", "rename the folder: its name is the plugin's", "%v", err)
	}
	v.folder()
	v.skills()
	if m, ok := v.manifest(); ok {
		v.tools(m)
		v.handler(m)
		v.advice(m)
		v.collisions(m)
	}
	if f := pluginhost.Inspect(abs); f.Err != nil && !v.failed() {
		v.wrong("", "", "", "%v", f.Err) // what only the host knows
	}
	return v.found
}

type validator struct {
	dir   string
	name  nacre.PluginName
	at    Place
	found []Finding
}

func (v *validator) wrong(file, key, fix, format string, values ...any) {
	if len(v.found) < maxFindings {
		v.found = append(v.found, Finding{File: file, Key: key, Text: fmt.Sprintf(format, values...), Fix: fix})
	}
}

func (v *validator) warn(file, key, fix, format string, values ...any) {
	if len(v.found) < maxFindings {
		v.found = append(v.found, Finding{Warning: true, File: file, Key: key, Text: fmt.Sprintf(format, values...), Fix: fix})
	}
}

func (v *validator) failed() bool {
	return slices.ContainsFunc(v.found, func(f Finding) bool { return !f.Warning })
}

// folder looks at every file's kind, and how many and how large they are.
func (v *validator) folder() {
	files, size := 0, int64(0)
	err := filepath.WalkDir(v.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(v.dir, path)
		if err != nil {
			return err
		}
		if !e.Type().IsRegular() {
			v.wrong(rel, "", "put the file itself there", "a link or a special file")
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if files, size = files+1, size+info.Size(); files > 2*maxFiles {
			return fs.SkipAll
		}
		return nil
	})
	switch {
	case err != nil:
		v.wrong("", "", "make every file readable", "%v", err)
	case files > maxFiles:
		v.wrong("", "", "keep dependencies and build output elsewhere", "more than %d files", maxFiles)
	case size > maxFolder:
		v.wrong("", "", "keep dependencies and build output elsewhere", "%d bytes, at most %d", size, int64(maxFolder))
	}
}

func (v *validator) skills() {
	entries, err := os.ReadDir(filepath.Join(v.dir, "skill"))
	if err != nil {
		return // one is generated
	}
	pages := 0
	for _, e := range entries {
		file := filepath.Join("skill", e.Name())
		if !e.Type().IsRegular() || !strings.HasSuffix(e.Name(), ".md") {
			v.warn(file, "", "name it *.md, or move it out of skill", "agents do not see it")
			continue
		}
		pages++
		info, err := e.Info()
		if err != nil || info.Size() > maxSkillFile {
			v.wrong(file, "", "write less, or more files", "more than %d bytes", maxSkillFile)
			continue
		}
		if text, err := os.ReadFile(filepath.Join(v.dir, file)); err != nil || !utf8.Valid(text) || len(strings.TrimSpace(string(text))) == 0 {
			v.warn(file, "", "write UTF-8 text", "empty, or not UTF-8")
		}
	}
	if pages > maxSkillFiles {
		v.wrong("skill", "", "write fewer, longer files", "%d files, at most %d", pages, maxSkillFiles)
	}
}

// tools looks at each tool's schema as the kernel will.
func (v *validator) tools(m plugin.Manifest) {
	for i, t := range m.Provides.Tools {
		key := fmt.Sprintf("provides.tools[%d]", i)
		compiled, err := schema.Compile(t.ArgumentsSchema)
		if err != nil {
			v.wrong(manifestFile, key+".arguments_schema", "", "tool %s: %v", t.Name, err)
			continue
		}
		for _, warning := range compiled.Warnings() {
			v.warn(manifestFile, key+".arguments_schema", "write a default that fits", "tool %s: %s", t.Name, warning)
		}
		if t.Safety != nacre.Read && m.Project != plugin.ProjectWrite {
			v.declared(key, t)
		}
		for what, paths := range map[string][]string{"sinks": t.Sinks, "text": t.Text, "files": t.Files} {
			for _, path := range paths {
				if !compiled.Has(path) {
					v.wrong(manifestFile, key+"."+what, "name an argument by its dotted path", "tool %s: there is no argument %.80q", t.Name, path)
				}
			}
		}
		v.kinds(key, t, compiled)
		if len(samples(t)) == 0 {
			v.warn(manifestFile, key+".arguments_schema", `add "examples": [{…}] to the schema`, "tool %s: no arguments that fit could be made up, so nacre plugin test will not call it", t.Name)
		}
	}
}

// declared wants a tool that changes something to say what each of its texts is (K-29).
func (v *validator) declared(key string, t plugin.ToolSpec) {
	named := slices.Concat(t.Sinks, t.Text, t.Files)
	open := slices.DeleteFunc(texts(t.ArgumentsSchema, ""), func(path string) bool {
		return slices.ContainsFunc(named, func(n string) bool { return path == n || strings.HasPrefix(path, n+".") })
	})
	switch {
	case len(t.Sinks)+len(t.Text) == 0:
		v.warn(manifestFile, key+".sinks", `name the arguments in which a wrong value does harm, such as "sinks": { "to": "email" }`,
			"tool %s changes something and has no sinks, so each call of a session that has read an outsider's text is asked about", t.Name)
	case len(open) > 0:
		v.warn(manifestFile, key+".text", `list what is free text in "text", files in "files", and what does harm where it is wrong in "sinks" with its kind`,
			"tool %s changes something, and nothing says what these arguments are: %s", t.Name, strings.Join(open, ", "))
	}
}

// texts are the dotted paths of the arguments that take any text: those of a fixed form, and
// those that have to be one of a few values, are none.
func texts(arguments json.RawMessage, path string) (found []string) {
	var s struct {
		Type, Enum, Const, Format any
		Properties                map[string]json.RawMessage
		Items                     json.RawMessage
	}
	if json.Unmarshal(arguments, &s) != nil || s.Enum != nil || s.Const != nil || s.Format != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		found = append(found, texts(s.Properties[name], strings.TrimPrefix(path+"."+name, "."))...)
	}
	if s.Items != nil {
		found = append(found, texts(s.Items, path)...)
	}
	if strings.Contains(fmt.Sprint(s.Type), "string") {
		found = append(found, path)
	}
	return found
}

// kinds wants each sink's kind to be one that a value of its argument can have.
func (v *validator) kinds(key string, t plugin.ToolSpec, compiled *schema.Schema) {
	for _, sink := range t.Sinks {
		kind, types := t.Kinds[sink], compiled.Types(sink)
		fits := []string{"string"}
		if kind == nacre.KindAmount || kind == nacre.KindID || kind == nacre.KindAccount {
			fits = append(fits, "integer", "number")
		}
		if kind != "" && len(types) > 0 && !slices.ContainsFunc(types, func(typ string) bool { return slices.Contains(fits, typ) }) {
			v.wrong(manifestFile, key+".sinks", "correct the kind or the type", "tool %s: the argument %.80q is of type %s, and no value of that is of kind %s",
				t.Name, sink, strings.Join(types, " or "), kind)
		}
	}
}

func (v *validator) handler(m plugin.Manifest) {
	switch {
	case len(m.MCP.Command) > 0:
		v.program("mcp.command", m.MCP.Command)
	case m.MCP.URL != "":
	case len(m.Handler) > 0:
		v.program("handler", m.Handler)
	default:
		v.executable("handler", "", "put an executable there, or name one as handler in the manifest")
	}
}

// program looks for the program of a command, and for the script it is given.
func (v *validator) program(key string, argv []string) {
	switch program := argv[0]; {
	case filepath.IsAbs(program):
		v.warn(manifestFile, key, "name it without its folder", "%s may lie elsewhere on another machine", program)
	case strings.Contains(program, "/"):
		v.executable(program, key, "put it there, and chmod +x it")
	default:
		if _, err := exec.LookPath(program); err != nil {
			v.wrong(manifestFile, key, "install "+program+", or put the program into the folder and name it ./"+program, "%s is not on the PATH of this machine", program)
		}
	}
	for _, word := range argv[1:] {
		if !slices.Contains([]string{".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".rb", ".sh", ".pl", ".lua", ".jar"}, filepath.Ext(word)) || strings.HasPrefix(word, "-") {
			continue
		}
		if info, err := os.Stat(filepath.Join(v.dir, word)); !filepath.IsAbs(word) && (err != nil || !info.Mode().IsRegular()) {
			v.wrong(manifestFile, key, "put it into the folder, or correct the name", "%s is missing", word)
		}
	}
}

func (v *validator) executable(file, key, fix string) {
	info, err := os.Lstat(filepath.Join(v.dir, file))
	switch {
	case err != nil:
		v.wrong(file, key, fix, "missing")
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		v.wrong(file, key, "chmod +x it", "not an executable file")
	}
}

// advice is what works and is still not as it should be.
func (v *validator) advice(m plugin.Manifest) {
	if ok, err := plugin.Compatible(m.AppCompat, v.at.Version); err == nil && !ok {
		v.wrong(manifestFile, "app_compat", "name a range that holds this version, or install another nacre", "%s excludes this version, %s", m.AppCompat, v.at.Version)
	}
	if len(m.Install.Credentials) > 0 && !m.Verify && m.MCP.URL == "" && len(m.MCP.Command) == 0 {
		v.warn(manifestFile, "verify", `answer verify, and write "verify": true`, "nobody can try the credentials before they are needed")
	}
	for i, c := range m.Install.Credentials {
		if c.Description == "" {
			v.warn(manifestFile, fmt.Sprintf("install.credentials[%d].description", i), "say what it is for", "credential %s is not described", c.Key)
		}
	}
	for i, t := range m.Provides.Tools {
		// What changes something answers what it did; what reads brings what others wrote.
		if t.Returns == nacre.Trusted && t.Safety == nacre.Read && len(m.Hosts) > 0 {
			v.warn(manifestFile, fmt.Sprintf("provides.tools[%d].returns", i), "leave returns out, unless no outsider can influence the result", "tool %s reads from the network and wants its results trusted", t.Name)
		}
	}
	if len(m.Provides.Tools)+len(m.Provides.Channels)+len(m.Provides.Hooks)+len(m.Subscribes) == 0 {
		v.warn(manifestFile, "provides", "declare a tool", "the plugin gives nobody anything")
	}
}

// collisions looks for names that are taken (D-25).
func (v *validator) collisions(m plugin.Manifest) {
	if slices.Contains(m.Provides.Hooks, plugin.HookMemoryBrief) {
		v.wrong(manifestFile, "provides.hooks", "leave the hook out", "memory is nacre's own, and no plugin takes its place")
	}
	if slices.Contains(pluginhost.OwnNames(), v.name) {
		v.wrong("", "", "rename the folder", "the name %s is nacre's own", v.name)
	}
	owner := map[nacre.ToolName]string{}
	for _, name := range append([]nacre.ToolName{"list_tools", "get_diagnostics", "get_session_info", "expand_handle"}, v.at.Own...) {
		owner[name] = "nacre itself"
	}
	for _, f := range v.at.Installed {
		if f.Name == v.name {
			continue
		}
		for _, t := range f.Manifest.Provides.Tools {
			owner[t.Name] = fmt.Sprintf("plugin %s (%s)", f.Name, f.Dir)
		}
		if strings.ReplaceAll(string(f.Name), "_", "-") == strings.ReplaceAll(string(v.name), "_", "-") {
			v.wrong("", "", "rename the folder", "the name is too much like that of plugin %s (%s)", f.Name, f.Dir)
		}
	}
	for i, t := range m.Provides.Tools {
		if who := owner[t.Name]; who != "" {
			v.wrong(manifestFile, fmt.Sprintf("provides.tools[%d].name", i), "rename it", "tool %s belongs to %s", t.Name, who)
		}
	}
}
