//go:build linux

package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox/inside"
)

// errKept refuses a folder that no session is shown because its agent asked.
var errKept = errors.New("refused")

// Folder is a folder of the host that an agent asked to see, opened once: what was looked at is
// what is shown, whatever its path leads to by then.
type Folder struct {
	native  *Native
	source  *Source
	sources *Sources
}

// OpenFolder opens and checks a folder that is to be shown, read-only, in a sandbox that runs
// already. Beside what no bind may show it refuses what no agent needs to ask for. That is places
// of the machine and of the kernel, nacre's own state, and folders with mounts or open sockets
// below them. The caller closes it.
func (n *Native) OpenFolder(name string) (*Folder, error) {
	f := &Folder{native: n, sources: OpenSources(n.options.StateDir)}
	var err error
	f.source, err = f.sources.Open(nacre.Mount{Kind: nacre.BindReadOnly, Source: name, Target: FoldersDir + "/folder"})
	if err == nil {
		err = f.sources.guard.keeps(f.source)
	}
	if err == nil {
		err = f.alone()
	}
	if err == nil && n.users.privileged { // whether it can be shown at all, before a person is asked
		var tree *os.File
		if tree, err = n.cloneOne(f.source); err == nil {
			_ = tree.Close() // it was only tried
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Path is the folder's path without symbolic links.
func (f *Folder) Path() string { return f.source.path }

// Name is a path under which the folder is open in this process, whatever happens to its own one.
func (f *Folder) Name() string { return fmt.Sprintf("/proc/self/fd/%d", f.source.file.Fd()) }

// Close lets go of the folder. Where it is shown it stays.
func (f *Folder) Close() { f.sources.Close() }

// unchanged refuses a folder whose path leads to another one by now, or to none.
func (f *Folder) unchanged() error {
	now, err := openSource(f.source.path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrReplaced, err)
	}
	defer now.close()
	if now.path != f.source.path || now.stat.Dev != f.source.stat.Dev || now.stat.Ino != f.source.stat.Ino {
		return ErrReplaced
	}
	return f.alone()
}

// alone refuses a folder below which something is that is not the folder's own.
func (f *Folder) alone() error {
	live, err := liveSockets(folders{})
	if err != nil {
		return err
	}
	if below := socketsBelow(f.source.path, live); len(below) > 0 {
		return fmt.Errorf("%s: a program of the host has a socket open below it (%s): %w", f.source.path, below[0], errKept)
	}
	below, err := mountBelow(f.source.path)
	if err == nil && below != "" {
		err = fmt.Errorf("%s: %s is mounted below it: %w", f.source.path, below, errKept)
	}
	return err
}

// keeps refuses what is the machine's, the kernel's or nacre's own.
func (g guard) keeps(s *Source) error {
	if !s.dir() {
		return fmt.Errorf("%s is not a folder: %w", s.path, errKept)
	}
	for _, place := range slices.Concat(g.never, g.programs, g.logins, []string{g.state}) {
		if contains(place, s.path) || place != "" && contains(s.path, place) {
			return fmt.Errorf("%s is, holds or is part of %s, which no agent is shown: %w", s.path, place, errKept)
		}
	}
	return nil
}

// mountBelow is a place below a folder at which something is mounted; "" where there is none.
func mountBelow(folder string) (string, error) {
	table, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer func() { _ = table.Close() }() // read-only
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		const place = 4 // of the fields of a line
		fields := strings.Fields(lines.Text())
		if len(fields) <= place {
			continue
		}
		if at := unescapedMount(fields[place]); strings.HasPrefix(at, folder+"/") {
			return at, nil
		}
	}
	return "", lines.Err()
}

// unescapedMount is a path of the kernel's table of mounts, which writes spaces, tabs, line
// breaks and backslashes as three octal digits.
func unescapedMount(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+4 <= len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// cloneOne is a detached, read-only bind of a source alone: what is mounted below is not in it.
func (n *Mapper) cloneOne(s *Source) (*os.File, error) {
	attributes := inside.TreeAttributes(true, false)
	if s.mapping != mapNever {
		users, err := n.idmaps.namespace(n, s.owner())
		if err != nil {
			return nil, err
		}
		attributes.Attr_set |= unix.MOUNT_ATTR_IDMAP
		attributes.Userns_fd = uint64(users.Fd())
	}
	tree, err := inside.CloneOne(int(s.file.Fd()), attributes)
	if errors.Is(err, unix.EINVAL) && s.mapping == mapWhere {
		tree, err = inside.CloneOne(int(s.file.Fd()), inside.TreeAttributes(true, false))
	}
	if errors.Is(err, unix.EINVAL) && s.mapping == mapRequired {
		return nil, errNoIDMap
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(tree), "tree"), nil
}
