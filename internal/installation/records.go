package installation

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
)

// EachRecord gives the records of chains to take, in their order. A chain that is not there,
// such as one that was pruned, has none.
func EachRecord(inst *Installation, chains []string, take func(nacre.Record) error) error {
	for _, chain := range chains {
		err := audit.Read(inst.AuditRoot(), chain, func(e audit.Entry) error {
			if err := take(e.Record); err != nil {
				return fmt.Errorf("record %d of %s, %s: %w", e.Seq, chain, e.Kind, err)
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
