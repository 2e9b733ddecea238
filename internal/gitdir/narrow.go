package gitdir

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/repo/git"
)

// narrow makes a git directory that was just made by the host one of a sparse work tree, in
// which only the folder below its top is there. Its configuration has to be written, and
// objects is where its objects are.
func narrow(ctx context.Context, gitDir, objects, below string) error {
	if below == "" || !filepath.IsLocal(below) || filepath.Clean(below) != below || strings.ContainsAny(below, "\n\r\x00") {
		return errors.New("git has no pattern for the name of this folder")
	}
	g, err := git.Find(ctx, "")
	if err != nil {
		return err
	}
	run := func(stdin []byte, args ...string) ([]byte, error) {
		return g.Run(ctx, git.Command{
			GitDir: gitDir, WorkTree: gitDir, Stdin: bytes.NewReader(stdin), Args: args,
			Env: []string{"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + objects},
		})
	}
	outside, err := run(nil, "ls-files", "-z", "--", ".", ":(top,exclude,literal)"+below)
	if err != nil || len(outside) == 0 {
		return err
	}
	_, err = run(outside, "update-index", "-z", "--skip-worktree", "--stdin")
	return err
}

// sparsePattern is the line of a sparse-checkout file that stands for a folder.
func sparsePattern(below string) string {
	return "/" + strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(below) + "/\n"
}

// outside are the changes to files that are not below a folder.
func outside(changes repo.Changes, below string) []repo.Change {
	return slices.DeleteFunc(slices.Clone(changes.Files), func(c repo.Change) bool { return strings.HasPrefix(c.Path, below+"/") })
}
