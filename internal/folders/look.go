package folders

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/hostpath"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/question"
	"github.com/nacre-dev/nacre/internal/sandbox"
)

// What an agent is told of a path says neither what is on the host nor where links lead there.
var (
	errEnded   = errors.New("the session ends: nothing is shown any more")
	errBackend = errors.New("folders are brought into a sandbox that runs by the native backend alone, and this session has another one. " +
		"A person can leave backend out of [sandbox] in config.toml, or start you in a folder that holds what you need")
	errKept = errors.New("no folder at this path can be shown. There is none, or it is one that no agent is shown: a home, keys, the machine's own places and nacre's, " +
		"what holds or is part of one, and what has mounts or open sockets below it. A path is relative to your project, from ~/, or absolute")
	errProject  = errors.New("this folder is your project, or inside of it: it is there already")
	errAround   = errors.New("this folder holds your project: ask for the folder beside it that you need")
	errRelative = errors.New("this session has no project, to which the path could be relative: write it from / or ~/")
	errLetters  = errors.New("the folder's path has characters that a person cannot see for what they are: no question could name it")
)

// open opens what an agent's path names, and refuses what no agent is shown. What was refused
// and why is recorded, with the whole path.
func (f *Folders) open(asked string) (*sandbox.Folder, error) {
	name, err := f.absolute(asked)
	if err != nil {
		return nil, err
	}
	if f.session == nil {
		return nil, errEnded
	}
	backend, able := f.session.Sandbox().(sandbox.Shows)
	if !able {
		return nil, errBackend
	}
	opened, err := backend.OpenFolder(name)
	if err != nil {
		return nil, f.refused(name, err, errKept)
	}
	if told, err := f.keeps(opened.Path()); err != nil {
		opened.Close()
		return nil, f.refused(name, err, told)
	}
	return opened, nil
}

// absolute is the path that the agent means, in which nothing was resolved yet.
func (f *Folders) absolute(asked string) (string, error) {
	if strings.ContainsRune(asked, 0) {
		return "", errKept
	}
	if below, inside := strings.CutPrefix(asked, posture.Workspace+"/"); inside {
		asked = below // as the agent knows its project
	}
	if rest, home := strings.CutPrefix(asked, "~/"); home {
		return filepath.Join(f.inst.Options.Getenv("HOME"), rest), nil
	}
	switch {
	case filepath.IsAbs(asked):
		return asked, nil
	case f.project == "":
		return "", errRelative
	}
	return f.project + "/" + asked, nil // ".." after a link leads where the link does
}

// keeps refuses the project, what is around it, and what is nacre's: told is what the agent is told.
func (f *Folders) keeps(at string) (told, why error) {
	paths := f.inst.Registry.Paths()
	for _, own := range []string{paths.State, paths.Config, paths.Data, paths.Runtime} {
		real, err := filepath.EvalSymlinks(own)
		if err != nil {
			real = own // it is not there
		}
		if hostpath.Contains(at, real) || hostpath.Contains(real, at) {
			return errKept, fmt.Errorf("%s is, holds or is part of nacre's own %s", at, own)
		}
	}
	if _, err := installation.OwnBelow(f.inst, at); err != nil {
		return errKept, err
	}
	switch {
	case f.project != "" && hostpath.Contains(f.project, at):
		return errProject, errProject
	case f.project != "" && hostpath.Contains(at, f.project):
		return errAround, errAround
	case question.Escape(at) != at:
		return errLetters, errLetters
	}
	return nil, nil
}

const (
	// maxEntries is how many entries of a folder are looked at, maxKeys how many of them are named.
	maxEntries, maxKeys = 10_000, 5
)

// glance says what is in a folder, as far as names and sizes tell, and what looks like keys there:
// what lies at the top comes first. Symbolic links are not followed, and what cannot be read is
// counted by nobody.
func glance(name string) (holds, keys string) {
	var files, entries int
	var bytes int64
	var found []string
	for pending := []string{"."}; len(pending) > 0 && entries <= maxEntries; pending = pending[1:] {
		_ = eachEntry(name, pending[0], func(at string, entry fs.DirEntry) bool {
			entries++
			if len(found) <= maxKeys && (keyLike(entry.Name()) || gitHolds(name, at)) {
				found = append(found, at)
			}
			if entry.IsDir() {
				pending = append(pending, at)
			} else if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
				files, bytes = files+1, bytes+info.Size()
			}
			return entries <= maxEntries
		})
	}
	many := ""
	if entries > maxEntries {
		many = "at least "
	}
	holds = fmt.Sprintf("%s%d files, %s", many, files, sandbox.Bytes(bytes))
	if files == 1 {
		holds = strings.Replace(holds, "1 files", "1 file", 1)
	}
	if info, err := os.Lstat(name + "/.git"); err == nil {
		holds = map[bool]string{true: "a git repository, ", false: "a git worktree, "}[info.IsDir()] + holds
	}
	if len(found) == 0 {
		return holds, ""
	}
	slices.Sort(found)
	more := ""
	if len(found) > maxKeys {
		found, more = found[:maxKeys], " and more"
	}
	return holds, "it holds what looks like keys: " + strings.Join(found, ", ") + more
}

// maxSettings is how much of a configuration of git is looked at, in bytes.
const maxSettings = 1 << 20

// gitHolds tells a configuration of git in which a password or a token stands: in an address, or in a header.
func gitHolds(root, at string) bool {
	inside := strings.HasPrefix(at, ".git/") || strings.Contains(at, "/.git/")
	if base := path.Base(at); !inside || base != "config" && base != "config.worktree" {
		return false
	}
	text, err := disk.Read(root+"/"+at, maxSettings)
	if err != nil {
		return false
	}
	for line := range strings.Lines(strings.ToLower(string(text))) {
		_, address, _ := strings.Cut(line, "http")
		address, _, _ = strings.Cut(strings.TrimLeft(address, "s:/"), "/")
		if strings.Contains(address, "@") || strings.Contains(line, "extraheader") || strings.Contains(line, "password") {
			return true
		}
	}
	return false
}

// eachEntry goes through a folder below a root, a few of its entries at a time, until it is told that
// these are enough.
func eachEntry(root, folder string, more func(at string, entry fs.DirEntry) bool) error {
	const few = 256
	dir, err := os.OpenFile(root+"/"+folder, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // read-only
	for {
		entries, err := dir.ReadDir(few)
		for _, entry := range entries {
			if !more(path.Join(folder, entry.Name()), entry) {
				return nil
			}
		}
		if err != nil {
			return err // at its end, that it is there
		}
	}
}

// keyLike tells the names under which keys and passwords lie.
func keyLike(name string) bool {
	for _, ending := range []string{".pem", ".key", ".p12", ".pfx", ".kdbx", ".keystore"} {
		if strings.HasSuffix(name, ending) {
			return true
		}
	}
	return slices.Contains([]string{
		".ssh", ".aws", ".gnupg", ".azure", ".kube", ".docker", ".netrc", ".npmrc", ".pypirc", ".git-credentials", "id_rsa", "id_ed25519", "id_ecdsa", "credentials", "credentials.json",
		".credentials.json", "credentials.toml", "credentials.db", "auth.json", "token.json", "hosts.yml", ".pgpass", ".my.cnf", ".vault-token", ".htpasswd", "terraform.tfstate",
		"logins.json", "key4.db", "cookies.sqlite", "Login Data", "Cookies", "secrets.yml", "secrets.yaml", "secrets.toml", "secrets.json",
	}, name) || name == ".env" || strings.HasPrefix(name, ".env.")
}
