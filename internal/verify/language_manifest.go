package verify

import (
	"fmt"
	"path"

	"github.com/nacre-dev/nacre/internal/manifest"
)

// bumps holds the manifests that a task lets change against the base's. What they say of
// dependencies may differ, and nothing else, because the same files say how tests are run. It
// returns "" or what is wrong.
func (t trees) bumps(p part) (string, error) {
	for _, name := range t.work.names() {
		if classOf(p.language, name) != declaring || borrowed(name) || !t.base.has(name) {
			continue
		}
		equal, err := same(t.base, t.work, name)
		if err != nil {
			return "", err
		}
		if equal {
			continue
		}
		was, err := t.base.read(name)
		if err != nil {
			return "", err
		}
		is, err := t.work.read(name)
		if err != nil {
			return "", err
		}
		if !manifest.SameButDependencies(path.Base(name), was, is) {
			return fmt.Sprintf("%s differs from the base in more than its dependencies: a person has to land that", name), nil
		}
	}
	return "", nil
}
