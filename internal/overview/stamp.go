package overview

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/registry"
)

// Stamp is another one as soon as the page of a session, or what its chains prove, may be
// another one. It reads no record, so it costs as little for a long session as for a short
// one.
func Stamp(inst *installation.Installation, id nacre.SessionID) (string, error) {
	known, err := inst.Registry.Show(id)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	_, _ = fmt.Fprintln(sum, known.State, known.Outcome, known.Finished.UnixNano(), known.Works) // a hash takes all
	for _, chain := range known.Chains {
		files, err := os.ReadDir(filepath.Join(inst.AuditRoot(), chain))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		for _, file := range files {
			info, err := file.Info()
			if err != nil {
				continue // it went meanwhile, which the next look sees
			}
			_, _ = fmt.Fprintln(sum, chain, file.Name(), info.Size(), info.ModTime().UnixNano())
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Cost is what the latest work of a session cost in millionths of a dollar, where it left a
// result.
func Cost(inst *installation.Installation, id nacre.SessionID) (micro int64, known bool) {
	result, err := registry.Result(inst.Registry.Paths().Session(id))
	if err != nil || result == nil {
		return 0, false
	}
	return result.Cost, true
}
