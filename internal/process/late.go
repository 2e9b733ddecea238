package process

import (
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre/internal/posture"
)

// LateExecution are the names at a project's top, of those that are there, that make
// programs of the host run code later.
func LateExecution(project string) []string {
	var there []string
	for _, name := range posture.LateExecution() {
		if _, err := os.Lstat(filepath.Join(project, name)); err == nil && project != "" {
			there = append(there, name)
		}
	}
	return there
}
