package verify

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/gate"
)

// noMassDelete is the verifier of safety::no-mass-delete. A file whose content
// is found whole in a new one was moved. One that was emptied, or that became
// a link, was deleted, whatever still bears its name.
func noMassDelete(ctx context.Context, s Subject, _ atom.Atom, _ Runner) (Verdict, error) {
	most := s.Task.MaxDeletes
	if most == 0 {
		most = gate.DefaultMaxDeletes
	}
	var lost []change
	for _, c := range s.delta.changes {
		if c.kind == deleted || c.kind == modified && !c.was.link && c.was.size > 0 && (c.is.link || c.is.size == 0) {
			lost = append(lost, c)
		}
	}
	if len(lost) <= most {
		return passed(), nil
	}
	findings, err := s.unmoved(ctx, lost)
	if err != nil {
		return Verdict{}, err
	}
	if len(findings) <= most {
		return passed(), nil
	}
	return failed(fmt.Sprintf("%d files were deleted, %d are allowed", len(findings), most), summary(findings)), nil
}

// content is what two files share that hold the same.
type content struct {
	link bool
	size int64
	sum  [sha256.Size]byte
}

// unmoved are the lost files of which no new file has the content. Each new
// file stands for one at most.
func (s Subject) unmoved(ctx context.Context, lost []change) (findings []string, err error) {
	base, err := openTree(s.Base)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, base.Close()) }()
	tree, err := openTree(s.Tree)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, tree.Close()) }()
	sizes := map[int64]bool{}
	for _, c := range lost {
		sizes[c.was.size] = true
	}
	appeared := map[content]int{}
	for _, c := range s.delta.changes {
		if c.kind != added || !sizes[c.is.size] {
			continue
		}
		sum, err := digest(ctx, tree, c.path, c.is)
		if err != nil {
			return nil, err
		}
		appeared[sum]++
	}
	for _, c := range lost {
		sum, err := digest(ctx, base, c.path, c.was)
		if err != nil {
			return nil, err
		}
		if appeared[sum] > 0 {
			appeared[sum]--
			continue
		}
		findings = append(findings, fmt.Sprintf("%q", c.path))
	}
	return findings, nil
}

func digest(ctx context.Context, root *os.Root, name string, f file) (content, error) {
	c := content{link: f.link, size: f.size}
	if f.link {
		c.sum = sha256.Sum256([]byte(f.target))
		return c, nil
	}
	if err := ctx.Err(); err != nil {
		return c, err
	}
	from, err := openFile(root, name)
	if err != nil {
		return c, err
	}
	h := sha256.New()
	_, err = io.Copy(h, io.LimitReader(from, f.size+1))
	h.Sum(c.sum[:0])
	return c, errors.Join(err, from.Close())
}
