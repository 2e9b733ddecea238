//go:build !linux

package disk

import (
	"errors"
	"os"
)

// AsOwner does something with the rights that this process has. Root is refused: a
// thread with a user of its own is Linux's.
func AsOwner(_ int, do func() error) error {
	if os.Geteuid() == 0 {
		return errors.New("nacre as root needs Linux: run it as an ordinary user")
	}
	return do()
}
