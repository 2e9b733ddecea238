package main_test

import (
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// author makes a plugin in Python from the scaffold, among the plugins of the user.
func (i *installation) author(name string) (dir string) {
	i.t.Helper()
	testpeer.Need(i.t, "python3")
	i.nacre("plugin", "new", name, "--lang", "python", "--dir", "home/.local/share/nacre/plugins").want(i.t, 0)
	return "home/.local/share/nacre/plugins/" + name
}

// allowing lets the group main use tools.
func (i *installation) allowing(tools string) {
	i.t.Helper()
	i.write("home/.config/nacre/config.toml", "[groups.main]\ntools = ["+tools+"]\n")
}

// D-25, F-63: of two plugins with one tool both are left out, with a line that names them, and all
// else works. That holds in a session, in nacre serve and for whoever lists plugins. doctor sees
// what sessions see.
func TestAPluginThatCollidesIsLeftOut(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	i.allowing(`"*"`)
	i.author("aa")
	i.author("cc")
	i.sh(i.work, "cp -r home/.local/share/nacre/plugins/aa home/.local/share/nacre/plugins/bb")
	r := i.nacre("exec", "--project", "p", "--", "sh", "-c", `ipc cc_list '{}' && ipc get_session_info '{}'; ipc aa_list '{}'; true`)
	r.want(t, 0, "aa is left out: the tool aa_add belongs to plugin bb", "bb is left out: the tool aa_add belongs to plugin aa", `"CONFIG_ERROR"`, "UNKNOWN_TOOL", `"cc"`)
	i.nacre("plugin", "list", "--json").want(t, 0, "the tool aa_add belongs to plugin bb", "the tool aa_add belongs to plugin aa")
	i.nacre("doctor", "--no-turns").want(t, 4, "aa: the tool aa_add belongs to plugin bb", "bb: the tool aa_add belongs to plugin aa")
	said, stop := i.serve()
	eventually(t, "serve says what it begins without", func() bool { return strings.Contains(said(), "plugin setup NAME") })
	has(t, said(), "plugin aa failed: CONFIG_ERROR", "plugin bb failed: CONFIG_ERROR",
		"without a credential that works: discord, slack, telegram; nacre plugin setup NAME gives one")
	stop()
	i.nacre("audit", "verify").want(t, 0)
}

// D-20, F-65, F-66: memory is nacre's own. The seed's memory plugin is read, and is
// left out with the reason; sessions go on with the memory that nacre has.
func TestAMemoryPluginIsLeftOut(t *testing.T) {
	t.Parallel()
	for name, manifest := range map[string]string{
		"memory": `{"description": "d", "version": "1.0.0", "handler": ["sh", "h.sh"], "provides": {"hooks": ["memory_brief"], "tools": [
			{"name": "memory_store", "description": "d", "arguments_schema": {"type": "object", "additionalProperties": false}}]}}`,
		"recall": `{"description": "d", "version": "1.0.0", "handler": ["sh", "h.sh"], "provides": {"tools": [
			{"name": "memory_store", "description": "d", "arguments_schema": {"type": "object", "additionalProperties": false}}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.project()
			i.allowing(`"*"`)
			i.write("home/.local/share/nacre/plugins/"+name+"/manifest.json", manifest)
			i.write("home/.local/share/nacre/plugins/"+name+"/h.sh", "exit 0\n")
			r := i.nacre("exec", "--project", "p", "--", "ipc", "memory_search", `{"query":"x"}`)
			r.want(t, 0, name+" is left out: ", "nacre's own")
			i.nacre("plugin", "list", "--json").want(t, 0, name, "failed", "nacre's own")
			i.nacre("doctor", "--no-turns").want(t, 4, name+": ", "nacre's own")
		})
	}
}

// F-63: doctor starts what sessions start, and tells of a handler that ends at once.
func TestDoctorStartsPlugins(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.allowing(`"aa_*"`)
	dir := i.author("aa")
	if r := i.nacre("doctor"); !strings.Contains(r.stdout, "1 in use, and each starts") {
		t.Errorf("have %s", r.stdout)
	}
	i.write(dir+"/handler.py", "import sys\nsys.exit('no such luck')\n")
	i.nacre("doctor").want(t, 4, "plugin aa", "it does not start", "no such luck")
	i.nacre("audit", "verify").want(t, 0)
}

// D-25: nobody installs a plugin that would silence one that is there: by a tool of it,
// by its name, or by a version that is put in place again.
func TestAnInstalledPluginSilencesNobody(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.nacre("plugin", "new", "aa", "--lang", "python", "--dir", "src").want(t, 0)
	i.nacre("plugin", "new", "bb", "--lang", "python", "--dir", "src").want(t, 0)
	rename := func(plugin, from, to string) {
		i.sh(i.work, "grep -q "+from+" src/"+plugin+"/manifest.json && sed -i s/"+from+"/"+to+"/ src/"+plugin+"/manifest.json")
	}
	i.nacre("plugin", "install", "src/aa", "--name", "reminders", "--yes").want(t, 1, "reminders", "comes with nacre")
	rename("aa", "aa_add", "create_reminder")
	i.nacre("plugin", "install", "src/aa", "--yes").want(t, 1, "tool create_reminder belongs to plugin reminders")
	rename("aa", "create_reminder", "aa_add")
	rename("bb", "bb_add", "bb_first")
	i.nacre("plugin", "install", "src/bb", "--yes").want(t, 0)
	rename("bb", "bb_first", "bb_second")
	i.nacre("plugin", "update", "bb", "--yes").want(t, 0)
	rename("aa", "aa_add", "bb_first")
	i.nacre("plugin", "install", "src/aa", "--yes").want(t, 0)
	i.nacre("plugin", "rollback", "bb").want(t, 1, "tool bb_first belongs to plugin aa")
	r := i.nacre("plugin", "list", "--json")
	r.want(t, 0, "bb_second", "bb_first", "create_reminder")
	if strings.Contains(r.stdout, "left out") {
		t.Errorf("have %s", r.stdout)
	}
}
