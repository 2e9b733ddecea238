package audit

import (
	"context"
	_ "embed" // the second verifier
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/nacre-dev/nacre/audit/internal/bundle"
	"github.com/nacre-dev/nacre/audit/internal/naming"
	"github.com/nacre-dev/nacre/internal/disk"
)

//go:embed verify_audit.py
var pythonVerifier string

// PythonVerifier is verify_audit.py, the second verifier, which shares no code with this package.
func PythonVerifier() string { return pythonVerifier }

// Export writes the chains, which must be closed and proven, with the index
// that vouches for them, for [VerifyBundle] on another machine. The index names
// all chains of the installation, but holds none of their records. Equal chains
// and index give equal bytes.
func Export(ctx context.Context, root string, chains []string, o VerifyOptions, w io.Writer) (err error) {
	if len(chains) == 0 {
		return errors.New("export: name the chains")
	}
	for _, chain := range chains {
		dir, err := chainDir(root, chain)
		if err != nil {
			return err
		}
		if _, err := os.Lstat(dir); err != nil {
			return fmt.Errorf("export: %w", err)
		}
	}
	release, err := holdAll(ctx, root, append(slices.Clone(chains), IndexChain))
	if err != nil {
		return fmt.Errorf("export: end the session first: %w", err)
	}
	defer func() { err = errors.Join(err, release()) }()
	index, err := readIndex(root, o)
	if err != nil {
		return err
	}
	for _, chain := range chains {
		r, err := verifyChain(filepath.Join(root, chain), chain, o, index, false)
		if err == nil && r.State != StateClosed {
			err = fmt.Errorf("chain %s is %s: only closed chains are exported", chain, r.State)
		}
		if err != nil {
			return err
		}
	}
	names, err := filesOf(root, append([]string{IndexChain}, chains...))
	if err != nil {
		return err
	}
	return bundle.Write(w, root, names)
}

// holdAll takes the locks of all the chains, the index's last as every writer does.
func holdAll(ctx context.Context, root string, chains []string) (release func() error, err error) {
	var locks []*disk.Lock
	release = func() error {
		var errs []error
		for _, lock := range locks {
			errs = append(errs, lock.Release())
		}
		return errors.Join(errs...)
	}
	for _, chain := range chains {
		lock, err := takeLock(ctx, filepath.Join(root, chain), writerWait)
		if err != nil {
			return nil, errors.Join(err, release())
		}
		locks = append(locks, lock)
	}
	return release, nil
}

// filesOf names the files of chains below root, as a bundle holds them.
func filesOf(root string, chains []string) (names []string, err error) {
	for _, chain := range chains {
		found, err := segments(filepath.Join(root, chain))
		if err != nil {
			return nil, err
		}
		names = append(names, chain+"/"+headFile)
		for n := found.first; n <= found.last; n++ {
			names = append(names, chain+"/"+naming.Segment(n))
		}
	}
	return names, nil
}

// VerifyBundle verifies every chain in the bundle against the index in it, by
// the trusted key of o. It unpacks into scratch, a folder that is empty and the
// caller's to remove. The error joins those of the chains that are not proven.
func VerifyBundle(r io.Reader, scratch string, o VerifyOptions) ([]Report, error) {
	chains, err := bundle.Unpack(r, scratch)
	if errors.Is(err, bundle.ErrBroken) {
		err = fmt.Errorf("%w: %w", ErrTampered, err)
	}
	if err != nil {
		return nil, err
	}
	chains = slices.DeleteFunc(chains, func(chain string) bool { return chain == IndexChain })
	index, err := readIndex(scratch, o)
	if err != nil {
		return nil, asTampered(err)
	}
	reports, errs := []Report{index.report}, []error(nil)
	for _, chain := range chains {
		r, err := verifyChain(filepath.Join(scratch, chain), chain, o, index, false)
		reports, errs = append(reports, r), append(errs, err)
	}
	if len(chains) == 0 {
		errs = append(errs, fmt.Errorf("%w: it holds no chain", ErrTampered))
	}
	return reports, errors.Join(errs...)
}
