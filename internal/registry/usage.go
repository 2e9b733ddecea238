package registry

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// blockSize is what the system counts a file's room in, in bytes.
const blockSize = 512

// Usage is how much room a folder takes on its disk, and Whole whether all of it was
// counted: not what cannot be read, or what is beyond the budget.
type Usage struct {
	Bytes int64 `json:"bytes"`
	Whole bool  `json:"whole"`
}

// UsageOf counts what a folder holds. It follows no link. budget is how many files it may
// look at, and it takes those from it that it did.
func UsageOf(dir string, budget *int) Usage {
	usage := Usage{Whole: true}
	for folders := []string{dir}; len(folders) > 0; {
		last := len(folders) - 1
		inner := usage.add(folders[last], budget)
		folders = append(folders[:last], inner...)
	}
	return usage
}

// add counts the files of a folder, and gives the folders in it.
func (u *Usage) add(dir string, budget *int) (folders []string) {
	list, err := os.Open(dir)
	if err != nil {
		u.Whole = u.Whole && errors.Is(err, fs.ErrNotExist)
		return nil
	}
	defer func() { _ = list.Close() }() // only read
	for {
		entries, err := list.ReadDir(min(atOnce, max(*budget, 1)))
		for _, e := range entries {
			if *budget <= 0 {
				u.Whole = false
				return nil
			}
			*budget--
			if info, err := e.Info(); err == nil { // else it is gone
				u.Bytes += blocks(info)
			}
			if e.IsDir() {
				folders = append(folders, filepath.Join(dir, e.Name()))
			}
		}
		if err != nil {
			u.Whole = u.Whole && errors.Is(err, io.EOF)
			return folders
		}
	}
}

// blocks is the room that a file takes.
func blocks(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Blocks * blockSize
	}
	return info.Size()
}
