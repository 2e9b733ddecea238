package audit

import (
	"errors"
	"fmt"
)

// Read gives each record of a chain to fn, in order. It checks each line's form
// and its link, not the signatures: that is Verify's. An unfinished last line,
// such as one being written, is left out. An error of fn ends the reading and
// is returned.
func Read(root, chain string, fn func(Entry) error) error {
	dir, err := chainDir(root, chain)
	if err != nil {
		return err
	}
	found, err := segments(dir)
	if err != nil {
		return fmt.Errorf("chain %s: %w", chain, err)
	}
	var at place
	for segment := found.first; found.last > 0 && segment <= found.last; segment++ {
		rest, err := scanLines(dir, segment, func(_ int, raw []byte) error {
			e, err := decode(raw)
			if err != nil {
				return fmt.Errorf("%w: %w", ErrTampered, err)
			}
			if err := at.step(e); err != nil {
				return err
			}
			return fn(e)
		})
		if err != nil {
			return fmt.Errorf("chain %s: %w", chain, err)
		}
		if len(rest) > 0 && segment < found.last {
			return fmt.Errorf("chain %s: %w: segment %s ends in the middle of a line", chain, ErrTampered, segmentName(segment))
		}
	}
	if found.last == 0 {
		return fmt.Errorf("chain %s: %w", chain, errors.New("no records"))
	}
	return nil
}
