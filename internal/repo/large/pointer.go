package large

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"regexp"
	"strconv"

	"github.com/nacre-dev/nacre/internal/disk"
)

// MaxPointer is the longest text that stands for a file of git LFS, in bytes, as its
// specification has it.
const MaxPointer = 1023

// pointerForm is how git LFS writes one.
func pointerForm() *regexp.Regexp {
	return regexp.MustCompile(`^version https://git-lfs\.github\.com/spec/v1\noid sha256:([0-9a-f]{64})\nsize ([0-9]{1,18})\n$`)
}

// Is tells whether a file is the one that a pointer stands for.
func Is(file string, pointer []byte) (bool, error) {
	parts := pointerForm().FindSubmatch(pointer)
	if parts == nil {
		return false, nil
	}
	f, err := disk.OpenRegular(file)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil || strconv.FormatInt(info.Size(), 10) != string(parts[2]) {
		return false, err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, io.LimitReader(f, info.Size()))
	return hex.EncodeToString(sum.Sum(nil)) == string(parts[1]), err
}
