package demo_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/internal/demo"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/terminal"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// buildNacre lays the binaries out as `make build` does.
func buildNacre(t *testing.T) string {
	t.Helper()
	if built := testpeer.Built(); built != "" {
		return filepath.Join(built, "nacre")
	}
	bin := filepath.Join(t.TempDir(), "bin")
	for _, name := range []string{"nacre", "ipc", "brain", sandbox.Init, "plugins/reminders/handler"} {
		testpeer.Copy(t, testpeer.Program(t, name), filepath.Join(bin, name))
	}
	testpeer.Copy(t, "../../plugins/reminders/manifest.json", filepath.Join(bin, "plugins/reminders/manifest.json"))
	return filepath.Join(bin, "nacre")
}

func options(executable string, out *bytes.Buffer) demo.Options {
	open := func(ctx context.Context, o assembly.Options) (demo.Runtime, error) { return assembly.Open(ctx, o) }
	return demo.Options{Open: open, Getenv: os.Getenv, Executable: executable, Now: time.Now, Version: "test", Printer: terminal.New(out, terminal.Style{})}
}

// The demo is the main job on the embedded default: every attack is tried, and stopped by a layer
// that the audit names. The fix lands. The receipt verifies. The control run shows that each of
// them succeeds where nothing protects.
func TestTheDemoShowsWhatItSaysAndSoDoesItsControlRun(t *testing.T) {
	executable := buildNacre(t)
	var sealed bytes.Buffer
	if err := demo.Run(t.Context(), options(executable, &sealed)); err != nil {
		t.Fatalf("%v\n%s", err, sealed.String())
	}
	for _, want := range []string{
		"sandbox: no home inside", "sandbox: .git is read-only", "egress proxy: not_listed", "kernel: not in the group's tools",
		"person: denied by the demo's operator", "redaction: reminders[0].title", "merged   main", "audit verify accepts it",
	} {
		if !strings.Contains(sealed.String(), want) {
			t.Errorf("the sealed run does not show %q:\n%s", want, sealed.String())
		}
	}
	if strings.Contains(sealed.String(), "ghp_") || strings.Contains(sealed.String(), "GOT THROUGH") {
		t.Errorf("something got through:\n%s", sealed.String())
	}
	var control bytes.Buffer
	if err := demo.Control(t.Context(), options(executable, &control)); err != nil {
		t.Fatalf("%v\n%s", err, control.String())
	}
	if have := strings.Count(control.String(), "GOT THROUGH"); have != 6 {
		t.Errorf("%d attacks got through unsealed, want 6:\n%s", have, control.String())
	}
}
