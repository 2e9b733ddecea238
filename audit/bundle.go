package audit

import (
	"bufio"
	"context"
	_ "embed" // the second verifier
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"github.com/nacre-dev/nacre/internal/disk"
)

//go:embed verify_audit.py
var pythonVerifier string

// PythonVerifier is verify_audit.py, the second verifier, which shares no code with this package.
func PythonVerifier() string { return pythonVerifier }

// A bundle is one file with everything that a verifier elsewhere needs: this
// line, then each file as "<chain>/<file> <bytes>\n" and its bytes, then the last line.
const (
	bundleBegin = "nacre-audit-bundle-v1\n"
	bundleEnd   = "end\n"
)

// Limits of a bundle.
const (
	maxBundleHeader = 128
	maxBundleFile   = 1 << 30
	maxBundleFiles  = 1 << 17
)

// bundleForm is a file's header: nothing else gets a name on disk.
var bundleForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([a-z0-9][a-z0-9._-]{0,79})/([0-9]{6}\.jsonl|head\.json) (0|[1-9][0-9]{0,9})\n$`)
})

// errBundle is what a file is that holds no bundle, or only part of one.
var errBundle = fmt.Errorf("%w: it is not a whole bundle", ErrTampered)

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
	return writeBundle(root, append([]string{IndexChain}, chains...), w)
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

func writeBundle(root string, chains []string, w io.Writer) error {
	out := bufio.NewWriterSize(w, MaxLine)
	_, _ = out.WriteString(bundleBegin) // its error stays until Flush
	for _, chain := range chains {
		dir := filepath.Join(root, chain)
		found, err := segments(dir)
		if err != nil {
			return err
		}
		names := []string{headFile}
		for n := found.first; n <= found.last; n++ {
			names = append(names, segmentName(n))
		}
		for _, name := range names {
			if err := bundleFile(out, dir, chain+"/"+name); err != nil {
				return err
			}
		}
	}
	_, _ = out.WriteString(bundleEnd)
	return out.Flush()
}

func bundleFile(out io.Writer, dir, name string) (err error) {
	f, err := disk.OpenRegular(filepath.Join(dir, filepath.Base(name)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%s %d\n", name, info.Size()); err != nil {
		return err
	}
	_, err = io.CopyN(out, f, info.Size())
	return err
}

// VerifyBundle verifies every chain in the bundle against the index in it, by
// the trusted key of o. It unpacks into scratch, a folder that is empty and the
// caller's to remove. The error joins those of the chains that are not proven.
func VerifyBundle(r io.Reader, scratch string, o VerifyOptions) ([]Report, error) {
	chains, err := unpackBundle(bufio.NewReaderSize(r, MaxLine), scratch)
	if err != nil {
		return nil, err
	}
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

// unpackBundle returns the chains it found beside the index.
func unpackBundle(r *bufio.Reader, dir string) (chains []string, err error) {
	if line, err := headerLine(r); err != nil || line != bundleBegin {
		return nil, errBundle
	}
	for range maxBundleFiles {
		line, err := headerLine(r)
		if err != nil {
			return nil, errBundle
		}
		if line == bundleEnd {
			if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
				return nil, errBundle
			}
			return chains, nil
		}
		chain, err := unpackFile(r, dir, line)
		if err != nil {
			return nil, err
		}
		if chain != IndexChain && !slices.Contains(chains, chain) {
			chains = append(chains, chain)
		}
	}
	return nil, errBundle
}

func headerLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadSlice('\n')
	if err != nil || len(line) > maxBundleHeader {
		return "", errBundle
	}
	return string(line), nil
}

func unpackFile(r io.Reader, dir, header string) (chain string, err error) {
	match := bundleForm().FindStringSubmatch(header)
	if match == nil {
		return "", errBundle
	}
	size, err := strconv.ParseInt(match[3], 10, 64)
	if err != nil || size > maxBundleFile {
		return "", errBundle
	}
	path := filepath.Join(dir, match[1], match[2])
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return "", errBundle
	}
	if err != nil {
		return "", err
	}
	_, err = io.CopyN(f, r, size)
	if errors.Is(err, io.EOF) {
		err = errBundle
	}
	return match[1], errors.Join(err, f.Close())
}
