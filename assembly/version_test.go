package assembly_test

import (
	"testing"

	"github.com/nacre-dev/nacre/assembly"
)

// U-30: a program has a version however it was built.
func TestAProgramHasAVersion(t *testing.T) {
	t.Parallel()
	if v := assembly.Version("v1.2.0"); v != "v1.2.0" {
		t.Errorf("the linker's is %q", v)
	}
	if v := assembly.Version(""); v == "" || v == "(devel)" {
		t.Errorf("without the linker's it is %q", v)
	}
}
