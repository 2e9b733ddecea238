package conversation

import (
	"errors"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/task"
)

// GoesOnFrom takes turns of one conversation, kept in a folder, each as it ended, and
// gives what the brain's next one goes on from.
func GoesOnFrom(dir string, turns ...task.Visit) (string, error) {
	resume := ""
	for n, turn := range turns {
		c, err := Read(dir, "key")
		c.Dir, c.State = dir, filepath.Join(dir, BrainFolder)
		id := nacre.SessionID("k" + strconv.Itoa(n))
		if err := errors.Join(err, c.Begin(id), c.Keep(Request{ID: id, Key: "key"}, turn, false, false, time.Unix(1_800_000_000, 0))); err != nil {
			return "", err
		}
		resume = c.Resume
	}
	return resume, nil
}
