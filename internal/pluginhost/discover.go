package pluginhost

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

// The names of files in a plugin's folder.
const (
	manifestFile = "manifest.json"
	handlerFile  = "handler"
	skillFolder  = "skill"
)

// A Found is one plugin's folder, read and not yet started.
type Found struct {
	Name nacre.PluginName
	// Dir is the folder, absolute and without symbolic links.
	Dir      string
	Manifest plugin.Manifest
	// Argv starts the handler with Dir as its working directory.
	Argv []string
	// Hash pins every file in the folder: "sha256:…" (D-13). A plugin without one
	// was not read whole, and cannot be started.
	Hash  string
	Skill Skill
	// Err says why the plugin cannot be started; everything after Dir may then be empty.
	Err error

	from string // the folder as it was named, where a reload looks again
	code string // hash of all but the skill
}

// Discover reads the plugins in these folders, sorted by name. A plugin in an
// earlier folder covers one of the same name in a later one, so the user's
// folder comes first (D-20). A folder that does not exist holds none. What is
// wrong with one plugin is in its Err; the error is for folders that cannot be read.
func Discover(dirs ...string) ([]Found, error) { return DiscoverFor(whole, dirs...) }

// whole wants every file of every plugin.
func whole(Found) bool { return true }

// DiscoverFor is [Discover] for one who starts some of the plugins only. Where
// wanted says no, the contents of the files are not read, and there is no Hash.
// It is asked of plugins that can be read, and given their manifest.
func DiscoverFor(wanted func(Found) bool, dirs ...string) ([]Found, error) {
	var found []Found
	covered := map[string]bool{}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("plugins: %w", err)
		}
		for _, e := range entries {
			if covered[e.Name()] || !isFolder(dir, e) {
				continue
			}
			covered[e.Name()] = true
			found = append(found, inspect(filepath.Join(dir, e.Name()), wanted))
		}
	}
	slices.SortFunc(found, func(a, b Found) int { return cmp.Compare(a.Name, b.Name) })
	return found, nil
}

func isFolder(dir string, e fs.DirEntry) bool {
	if strings.HasPrefix(e.Name(), ".") {
		return false
	}
	info, err := os.Stat(filepath.Join(dir, e.Name())) // a plugin's folder itself may be a link
	return err == nil && info.IsDir()
}

// Inspect reads one plugin's folder. What is wrong with it is in Err.
func Inspect(dir string) Found { return inspect(dir, whole) }

func inspect(dir string, wanted func(Found) bool) Found {
	f := Found{Dir: dir, from: dir}
	f.Name, f.Err = nacre.ParsePluginName(filepath.Base(dir))
	if f.Err != nil {
		f.Name = nacre.PluginName(printable(filepath.Base(dir)))
		return f
	}
	f.Err = f.read(wanted)
	return f
}

func (f *Found) read(wanted func(Found) bool) (err error) {
	if f.Dir, err = filepath.Abs(f.Dir); err != nil {
		return err
	}
	if f.Dir, err = filepath.EvalSymlinks(f.Dir); err != nil {
		return err
	}
	err = f.readManifest()
	if err == nil && !wanted(*f) {
		err = checkFolder(f.Dir)
	} else if err = f.pin(); err == nil {
		err = f.readManifest() // what was hashed counts
	}
	if err != nil {
		return err
	}
	if f.Argv, err = handlerArgv(f.Dir, f.Manifest); err != nil {
		return err
	}
	f.Skill, err = readSkill(*f)
	return err
}

// pin reads every file of the folder.
func (f *Found) pin() error {
	now, err := hashFolder(f.Dir)
	f.Hash, f.code = now.all, now.code
	return err
}

func (f *Found) readManifest() error {
	path := filepath.Join(f.Dir, manifestFile)
	data, err := readBounded(path, plugin.MaxManifest)
	if err != nil {
		return err
	}
	if f.Manifest, err = plugin.ParseManifest(data); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// handlerArgv is the manifest's handler or MCP server, or the executable file
// named so. A server at a URL has none.
func handlerArgv(dir string, m plugin.Manifest) ([]string, error) {
	switch {
	case m.MCP.URL != "":
		return nil, nil
	case len(m.MCP.Command) > 0:
		return slices.Clone(m.MCP.Command), nil
	case len(m.Handler) > 0:
		return slices.Clone(m.Handler), missingScript(dir, m.Handler)
	}
	path := filepath.Join(dir, handlerFile)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s is missing: %s", path, makeHandler(dir))
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return nil, fmt.Errorf("%s is not an executable file: chmod +x it", path)
	}
	return []string{"./" + handlerFile}, nil
}

// missingScript tells of a program, or of a script that it is given, which the folder should have
// and has not. That is the manifest's fault, and known before a start (F-80).
func missingScript(dir string, argv []string) error {
	for i, word := range argv {
		named := i == 0 && strings.Contains(word, "/") || i == 1 && scriptName(word)
		if !named || filepath.IsAbs(word) {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, word)); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("handler: %s is missing in %s: put it there, or correct the name in the manifest", word, dir)
		}
	}
	return nil
}

// scriptName tells the name of a script from a flag or a module.
func scriptName(word string) bool {
	return !strings.HasPrefix(word, "-") && slices.Contains([]string{".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".rb", ".sh", ".pl", ".lua", ".jar"}, filepath.Ext(word))
}

// makeHandler says how a plugin without a handler gets one.
func makeHandler(dir string) string {
	if _, err := os.Stat(filepath.Join(dir, "main.go")); err == nil {
		return "build it in the folder with CGO_ENABLED=0 go build -o " + handlerFile + " ."
	}
	return "put an executable there, or name one as handler in the manifest"
}

func readBounded(path string, limit int64) ([]byte, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s is missing: nacre plugin new makes one", path)
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file: put the file itself there", path)
	case info.Size() > limit:
		return nil, fmt.Errorf("%s: %d bytes, at most %d", path, info.Size(), limit)
	}
	return os.ReadFile(path)
}

// printable makes a folder's name fit to be shown: it is nobody's identity.
func printable(name string) string {
	name = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '?'
		}
		return r
	}, name)
	return name[:min(len(name), 64)]
}
