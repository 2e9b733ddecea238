//go:build !linux

package prove

import (
	"context"
	"errors"

	"github.com/nacre-dev/nacre/internal/installation"
)

// Installation refuses: what plays escapes is built for Linux, and runs on the machine whose
// kernel holds it.
func Installation(context.Context, *installation.Installation, string, func(string)) ([]Row, error) {
	return nil, &installation.NotReady{What: "prove what holds", Err: errors.New("its escapes are played on Linux alone"), Next: "run it in a Linux machine: docs/install.md, \"On macOS\""}
}
