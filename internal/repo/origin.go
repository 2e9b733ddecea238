package repo

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nacre-dev/nacre/internal/disk"
)

// originEnd is the end of the name of what says, beside a clone, what it was made of. It
// is there while the clone is whole. The agent does not see it.
const originEnd = ".from"

// Origin is what a clone was made of.
type Origin struct {
	Commit Commit `json:"commit"`
	Branch string `json:"branch"`
}

// KeepOrigin says that the clone in dir is whole, and that it was made of the project.
func KeepOrigin(p *Project, dir string) error {
	data, _ := json.Marshal(Origin{Commit: p.Base, Branch: p.Branch}) // texts only
	return disk.Write(dir+originEnd, data, 0o600)
}

// OriginOf is what the clone in dir was made of; zero where no whole clone is.
func OriginOf(dir string) (o Origin, err error) {
	data, err := readOptional(dir+originEnd, 1<<16)
	if err != nil || len(data) == 0 {
		return o, err
	}
	if err = json.Unmarshal(data, &o); err != nil {
		err = fmt.Errorf("%s: %w", dir+originEnd, err)
	}
	return o, err
}

// SnapshotBase is the commit that the latest snapshot was made over; empty where there is none.
func SnapshotBase(ctx context.Context, p *Project) Commit {
	id, _ := p.ownLine(ctx, "rev-parse", "-q", "--verify", snapshotRef+"^1") // which then prints nothing
	return Commit(id)
}
