package repo_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/nacre-dev/nacre/internal/repo"
)

// P-03: a checkout that several write at once has every file, and links that lead to
// what another of them wrote.
func TestManyFilesAreCheckedOutAtOnce(t *testing.T) {
	t.Parallel()
	want := map[string]string{"link": "-> folder0/file0", "folder1/up": "-> ../folder9/file9"}
	for i := range 2100 {
		want[fmt.Sprintf("folder%d/file%d", i%50, i)] = fmt.Sprint("content of ", i)
	}
	u := newUser(t)
	u.imports(want)
	r := u.session("")
	tree := repo.Tree(u.git("rev-parse", "HEAD^{tree}"))
	dir := filepath.Join(t.TempDir(), "out")
	if err := r.project.Checkout(t.Context(), tree, dir); err != nil {
		t.Fatal(err)
	}
	sameFiles(t, files(t, dir), want)
}
