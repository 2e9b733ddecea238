package pluginhost

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Limits of a plugin's folder.
const (
	maxFiles  = 10_000
	maxFolder = 512 << 20 // bytes
)

// hashes are over names, executable bits and contents of the files in a
// plugin's folder, in the order of their names: "sha256:…".
type hashes struct {
	all  string
	code string // without the skill
}

// hashFolder reads every file of a folder that [checkFolder] takes.
func hashFolder(dir string) (hashes, error) {
	sum, code := sha256.New(), sha256.New()
	left := int64(maxFolder)
	err := eachFile(dir, func(path, rel string, _ fs.DirEntry) error {
		to := io.MultiWriter(sum, code)
		if strings.HasPrefix(rel, skillFolder+string(filepath.Separator)) {
			to = sum
		}
		n, err := hashFile(to, path, rel, left)
		left -= n
		return err
	})
	if err != nil {
		return hashes{}, err
	}
	return hashes{all: digest(sum), code: digest(code)}, nil
}

// checkFolder refuses links and special files, as what they lead to could change
// under a hash, and more than a folder may hold. It reads no file.
func checkFolder(dir string) error {
	left := int64(maxFolder)
	return eachFile(dir, func(path, _ string, e fs.DirEntry) error {
		info, err := e.Info()
		if err != nil {
			return err
		}
		if left -= info.Size(); left < 0 {
			return tooLarge(path)
		}
		return nil
	})
}

func tooLarge(path string) error {
	return fmt.Errorf("%s: the plugin's folder is larger than %d bytes", path, int64(maxFolder))
}

// eachFile goes through the regular files of a folder that has no others.
func eachFile(dir string, do func(path, rel string, e fs.DirEntry) error) error {
	files := 0
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
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
		return do(path, rel, e)
	})
}

func digest(sum hash.Hash) string { return "sha256:" + hex.EncodeToString(sum.Sum(nil)) }

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
		return 0, tooLarge(path)
	}
	content := sha256.New()
	n, err := io.Copy(content, io.LimitReader(f, left))
	if err != nil {
		return n, err
	}
	_, err = fmt.Fprintf(sum, "%s %t %x\n", strconv.Quote(rel), info.Mode().Perm()&0o111 != 0, content.Sum(nil))
	return n, err
}
