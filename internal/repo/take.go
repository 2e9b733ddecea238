package repo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre/internal/repo/git"
)

// ErrNotForward is a commit that does not follow the one that it should land on.
var ErrNotForward = errors.New("it does not follow the branch")

// Take reads a pack of at most so many bytes into the project's own git directory, and
// nowhere else. Each object must be whole, one that git would make, and have all that it
// names there or in the user's own objects. A kilobyte of a pack can stand for gigabytes:
// what takes more than 256 MiB of memory is refused, and large files are read in pieces.
func Take(ctx context.Context, p *Project, pack io.Reader, most int64) error {
	_, err := p.git.Run(ctx, git.Command{GitDir: p.vault.dir, Stdin: pack,
		Env:  []string{"GIT_ALLOC_LIMIT=256m", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.bigFileThreshold", "GIT_CONFIG_VALUE_0=32m"},
		Args: []string{"index-pack", "--strict", "--stdin", "--threads=1", "--max-input-size=" + strconv.FormatInt(most, 10)},
	})
	return err
}

// Pack is what the latest snapshot has beyond the base, as [Take] reads it.
func Pack(ctx context.Context, p *Project) ([]byte, error) {
	return p.git.Run(ctx, git.Command{
		GitDir: p.vault.dir, Stdin: lines(snapshotRef, "^"+string(p.Base)), Args: []string{"pack-objects", "--revs", "--stdout", "-q"},
	})
}

// CountNew counts the commits that a commit has beyond the known ones. What is no commit
// that was taken is an error.
func CountNew(ctx context.Context, p *Project, tip Commit, known []string) (int, error) {
	if have, err := p.ownLine(ctx, "rev-parse", "-q", "--verify", string(tip)+"^{commit}"); err != nil || have != string(tip) {
		return 0, errors.Join(fmt.Errorf("%.12s is no commit that was taken", tip), err)
	}
	out, err := p.git.Line(ctx, git.Command{GitDir: p.vault.dir, Stdin: strings.NewReader("^" + strings.Join(known, "\n^") + "\n"),
		Args: []string{"rev-list", "--count", "--ignore-missing", string(tip), "--stdin"},
	})
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(out)
}

// Keep puts a commit that was taken on the first free branch of nacre/SIDE.
func Keep(ctx context.Context, p *Project, r LandRequest, side string) (branch string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := checkBranch("nacre/" + side); err != nil {
		return "", err
	}
	if err := p.export(ctx, r.Commit, p.Base); err != nil {
		return "", fmt.Errorf("keep: %w", err)
	}
	var stayed *StayedError
	if _, err = p.stay(ctx, r, side, ""); errors.As(err, &stayed) {
		return stayed.Branch, nil
	}
	return "", err
}
