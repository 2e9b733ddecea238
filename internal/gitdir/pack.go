package gitdir

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/basis"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/sandbox"
)

// Limits of what is taken from an agent's git directory. Its zero value takes nothing.
type Limits struct {
	// Pack is the largest pack, in bytes, and Time how long it may take.
	Pack int64
	Time time.Duration
	// Refs is how many branches may be new, Name how long the name of one may be.
	Refs, Name int
}

// DefaultLimits are those of a person's session.
func DefaultLimits() Limits {
	return Limits{Pack: 2 << 30, Time: 5 * time.Minute, Refs: 64, Name: 200}
}

// packScript runs in the sealed process. It may use the agent's refs and configuration, which the
// host does not; what it prints is only claimed. First come the tips, a line each, and the first new
// tags with what they lead to. After an empty line comes one pack of what the tips have beyond the
// host's.
const packScript = `set -e
export GIT_DIR=/var/lib/nacre/git
cd /tmp
{ git for-each-ref --format='%(objectname) %(refname)' refs/heads
  echo "$(git rev-parse -q --verify 'HEAD^{commit}' || true) HEAD"
  git log -g --format='%H refs/stash' refs/stash -- 2>/dev/null || true
} | sed '/^ /d' >tips
cat tips
git for-each-ref --format='%(objectname) %(refname)' refs/tags | LC_ALL=C sort >tags
sed -n 's/^\([0-9a-f]\{40,\} refs\/tags\/.*\)/\1/p' /var/lib/nacre/known | LC_ALL=C sort | LC_ALL=C comm -13 - tags | head -n 65 | while read -r id name; do
  echo "$id $name $(git rev-parse -q --verify "$id^{commit}" 2>/dev/null || true)"
done
echo
{ cut -d' ' -f1 tips; sed -n 's/^\([0-9a-f]\{40,\}\).*/^\1/p' /var/lib/nacre/known | head -n 10000; } | git -c core.bigFileThreshold=32m pack-objects --revs --stdout -q --delta-base-offset --threads=1
`

// tip is a commit that the agent's git directory names, as the sealed process says.
type tip struct {
	id   repo.Commit
	name string
}

const (
	// maxTips is how many refs the sealed process may name: git has them all in memory.
	maxTips = 4_000_000
	// tagPrefix begins the names of tags.
	tagPrefix = "refs/tags/"
	// maxNew is how many times the branches that are taken may be named.
	maxNew = 4
)

var errClaim = errors.New("what the sealed process printed is not what it was asked for")

// pack lets a sealed process pack what is new in a git directory, into a file of the
// host's. Nothing of what it says was checked but its form.
func pack(ctx context.Context, s *basis.Basis, place repo.Place, work string, known map[repo.Commit]bool, l Limits) (tips []tip, file string, err error) {
	p, err := packPosture(s, place, work, l)
	if err != nil {
		return nil, "", err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = null.Close() }() // it was only read
	complaint, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = complaint.Close() }() // it keeps nothing
	read, write, err := os.Pipe()
	if err != nil {
		return nil, "", err
	}
	process, err := s.Start(ctx, sandbox.Command{Posture: p, Argv: []string{"/bin/sh", "-c", packScript}, Stdin: null, Stdout: write, Stderr: complaint})
	if err = errors.Join(err, write.Close()); err != nil {
		return nil, "", hostError{errors.Join(err, read.Close())}
	}
	defer context.AfterFunc(ctx, func() { _ = process.Kill() })() // what it reads, and so what it says, may have no end
	tips, file, err = receive(read, work, known, l)
	if err != nil && !errors.Is(err, io.EOF) { // else it is ending, and says how
		err = errors.Join(err, process.Kill())
	}
	exit, waited := s.Wait(ctx, process)
	err = errors.Join(err, read.Close())
	killed := waited != nil || exit.Code == 128+int(syscall.SIGKILL) && !exit.TimedOut // the shell's word for it, too
	switch {
	case killed && (err == nil || errors.Is(err, io.EOF)): // as the kernel ends one for want of memory
		err = hostError{errors.Join(errors.New("what packs them was killed"), waited)}
	case err == nil && exit.Code != 0:
		err = fmt.Errorf("git could not pack it (exit %d)", exit.Code)
	}
	return tips, file, errors.Join(err, waited)
}

// packPosture shows the git directory as it was left, read-only, and reaches nothing.
func packPosture(s *basis.Basis, place repo.Place, work string, l Limits) (nacre.Posture, error) {
	in := posture.Input{
		Offline: true, Limits: s.Inst.Config.Limits.Over(nacre.Limits{Wall: l.Time, Output: 1 << 20}),
		Mounts: []nacre.Mount{
			{Source: filepath.Join(work, "git"), Target: inside}, {Source: filepath.Join(place.CommonDir, "objects"), Target: objectsInside},
			{Source: filepath.Join(work, "known"), Target: "/var/lib/nacre/known"},
		},
	}
	if s.Sandbox().HostTools() {
		in.System = slices.Clone(s.Found.System())
	}
	return posture.Compute(in)
}

// receive reads what the sealed process prints.
func receive(from io.Reader, work string, known map[repo.Commit]bool, l Limits) ([]tip, string, error) {
	in := bufio.NewReaderSize(from, 1<<16)
	var tips []tip
	for said := 0; ; said++ {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return nil, "", fmt.Errorf("%w: %w", errClaim, err)
		}
		text := string(line[:len(line)-1])
		if text == "" {
			break
		}
		id, name, _ := strings.Cut(text, " ")
		if !isID(id) || len(text) > maxRef || said == maxTips {
			return nil, "", errClaim
		}
		if known[repo.Commit(id)] && !strings.HasPrefix(name, tagPrefix) {
			continue
		}
		if tips = append(tips, tip{repo.Commit(id), name}); len(tips) > maxNew*l.Refs {
			return nil, "", fmt.Errorf("more than %d branches are new", l.Refs)
		}
	}
	out, err := os.OpenFile(filepath.Join(work, "pack"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, "", err
	}
	n, err := io.Copy(out, io.LimitReader(in, l.Pack+1))
	if err = errors.Join(err, out.Close()); err != nil {
		return nil, "", err
	}
	if n > l.Pack {
		return nil, "", fmt.Errorf("the pack has more than %d bytes: %w", l.Pack, repo.ErrTooBig)
	}
	return tips, out.Name(), nil
}
