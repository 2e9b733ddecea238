package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
)

// Source is the host side of a bind, opened once: what was checked is what is mounted.
type Source struct {
	file    *os.File // disk.LookOnly
	path    string   // without symbolic links
	stat    unix.Stat_t
	mapping mapping
}

// Path is the source's path without symbolic links.
func (s *Source) Path() string { return s.path }

// File is the source's device and inode.
func (s *Source) File() (dev, ino uint64) { return uint64(s.stat.Dev), s.stat.Ino }

// Dir reports whether the source is a directory.
func (s *Source) Dir() bool { return s.dir() }

func (s *Source) close() { _ = s.file.Close() } // nothing is read or written through it

func (s *Source) dir() bool { return s.stat.Mode&unix.S_IFMT == unix.S_IFDIR }

func (s *Source) owner() owner { return owner{int(s.stat.Uid), int(s.stat.Gid)} }

// openSource resolves a path once, with its symbolic links.
func openSource(name string) (*Source, error) {
	if !filepath.IsAbs(name) {
		return nil, errors.New("the path must be absolute")
	}
	fd, err := unix.Open(name, disk.LookOnly|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return newSource(fd)
}

// openBelow opens a path below a source that an agent can write to, where no
// symbolic link can be trusted.
func (s *Source) openBelow(rel string) (*Source, error) {
	fd, err := disk.Open(int(s.file.Fd()), rel, disk.LookOnly, true)
	if errors.Is(err, unix.ELOOP) {
		return nil, errors.New("it passes through a symbolic link in a folder that an agent can write to: refused")
	}
	if err != nil {
		return nil, err
	}
	return newSource(fd)
}

func newSource(fd int) (*Source, error) {
	s := &Source{file: os.NewFile(uintptr(fd), "source")}
	var err error
	if s.path, err = disk.PathOf(fd); err != nil {
		s.close()
		return nil, err
	}
	if err := unix.Fstat(fd, &s.stat); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// guard knows which sources no posture may name.
type guard struct {
	homes []string
	state string
	never []string
	// programs and keys are folders of the machine's, and below the homes, resolved; logins are those that no
	// agent is shown that asks.
	programs, keys, logins []string
}

// programFolders hold what the machine itself runs or obeys: who writes there
// has the machine.
func programFolders() []string {
	return []string{
		"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/share",
		"/usr/local/bin", "/usr/local/sbin", "/usr/local/lib", "/boot", "/etc", "/var/spool",
	}
}

// keyFolders are below a home, and hold keys and what may be logged in with.
func keyFolders() []string {
	return []string{".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config/gcloud", ".password-store", "Library/Keychains"}
}

// loginFolders are below a home, too, and hold what a browser, a keyring or a tool is logged in with. A person
// can bind what else lies there; no agent can ask for it.
func loginFolders() []string {
	return []string{
		".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge", ".config/vivaldi",
		".local/share/keyrings", ".local/share/kwalletd", ".config/gh", ".config/glab-cli", ".config/op", ".config/rclone", ".terraform.d", "Library/Application Support/Google", "Library/Application Support/Firefox", "Library/Safari", "Library/Cookies",
		".claude", ".codex", ".gemini",
	}
}

func newGuard(stateDir string) guard {
	known := folders{}
	g := guard{homes: homeDirs(known), state: known.named(stateDir)}
	for _, name := range []string{"/proc", "/sys", "/dev", "/run", "/var/run", "/etc/shadow"} {
		g.never = append(g.never, known.named(name))
	}
	for _, name := range programFolders() {
		g.programs = append(g.programs, known.named(name))
	}
	for _, home := range g.homes {
		for _, name := range loginFolders() {
			g.logins = append(g.logins, known.named(filepath.Join(home, name)))
		}
		for _, name := range keyFolders() {
			folder := known.named(filepath.Join(home, name))
			if _, err := os.Lstat(folder); err == nil {
				g.keys = append(g.keys, folder)
			}
		}
	}
	return g
}

// check refuses sources that would open the sandbox, whoever asked for them.
func (g guard) check(s *Source, kind nacre.MountKind) error {
	switch s.stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR, unix.S_IFREG:
	default:
		return fmt.Errorf("%s is a socket, device, pipe or link: refused", s.path)
	}
	if strings.HasSuffix(s.path, " (deleted)") && s.stat.Nlink == 0 {
		return fmt.Errorf("%s was deleted: refused", s.path)
	}
	for _, system := range []string{"/proc", "/sys", "/dev"} {
		if contains(system, s.path) {
			return fmt.Errorf("%s is part of the kernel's interface: refused", s.path)
		}
	}
	for _, never := range g.never {
		if contains(s.path, never) {
			return fmt.Errorf("%s holds %s: refused", s.path, never)
		}
	}
	for _, home := range g.homes {
		if contains(s.path, home) {
			return fmt.Errorf("%s is or holds a home directory (%s): bind what is needed below it", s.path, home)
		}
	}
	for _, keys := range g.keys {
		if contains(keys, s.path) || contains(s.path, keys) {
			return fmt.Errorf("%s is, holds or is part of %s, which holds keys: refused", s.path, keys)
		}
	}
	for _, programs := range g.programs {
		if kind == nacre.BindReadWrite && (contains(s.path, programs) || contains(programs, s.path)) {
			return fmt.Errorf("%s is or holds what this machine runs (%s): refused for writing; work on a copy elsewhere", s.path, programs)
		}
	}
	if g.state != "" && contains(s.path, g.state) {
		return fmt.Errorf("%s holds nacre's own state (%s): refused, %s", s.path, g.state, kind)
	}
	return nil
}

// contains reports whether path is dir or below it.
func contains(dir, path string) bool {
	if dir == "" || path == "" {
		return false
	}
	return dir == path || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// firstPerson is the first user id of people, by the convention of distributions.
const firstPerson = 1000

// homeDirs are the home directories of the current user, root and all people.
func homeDirs(known folders) []string {
	homes := []string{"/root"}
	if home := os.Getenv("HOME"); filepath.IsAbs(home) && home != "/" {
		homes = append(homes, known.named(home))
	}
	text, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return homes
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) < 6 || !filepath.IsAbs(fields[5]) || fields[5] == "/" {
			continue
		}
		var uid int
		if _, err := fmt.Sscan(fields[2], &uid); err == nil && (uid >= firstPerson || uid == os.Geteuid()) {
			homes = append(homes, known.named(fields[5]))
		}
	}
	return homes
}
