package pluginhost

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// Limits of a plugin's folder.
const (
	maxFiles  = 10_000
	maxFolder = 512 << 20 // bytes
)

// contentHash is over names, executable bits and contents of all files in a
// folder, in the order of their names. Links and special files are refused: what they
// lead to could change under the hash.
func contentHash(dir string) (string, error) {
	sum := sha256.New()
	files, left := 0, int64(maxFolder)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if !e.Type().IsRegular() {
			return fmt.Errorf("%s is a link or a special file: put the file itself there", path)
		}
		if files++; files > maxFiles {
			return fmt.Errorf("%s holds more than %d files: keep dependencies elsewhere", dir, maxFiles)
		}
		n, err := hashFile(sum, path, rel, left)
		left -= n
		return err
	})
	if err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}

func hashFile(sum io.Writer, path, rel string, left int64) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // only read from
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if info.Size() > left {
		return 0, fmt.Errorf("%s: the plugin's folder is larger than %d bytes", path, int64(maxFolder))
	}
	content := sha256.New()
	n, err := io.Copy(content, io.LimitReader(f, left))
	if err != nil {
		return n, err
	}
	_, err = fmt.Fprintf(sum, "%s %t %x\n", strconv.Quote(rel), info.Mode().Perm()&0o111 != 0, content.Sum(nil))
	return n, err
}
