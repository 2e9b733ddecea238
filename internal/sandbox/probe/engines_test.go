package probe_test

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/nacre-dev/nacre/internal/prove"
	"github.com/nacre-dev/nacre/internal/sandbox/container"
	"github.com/nacre-dev/nacre/internal/sandbox/probe"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// engines are the container engines that can be reached: the environment names
// their sockets, as .ci/engines does.
func engines(t *testing.T, binary string) []reachable {
	t.Helper()
	var all []reachable
	for _, e := range []struct{ name, engine, variable, runtime string }{
		{"docker", container.Docker, "NACRE_DOCKER", ""},
		{"podman", container.Podman, "NACRE_PODMAN", ""},
		{"docker with gVisor", container.Docker, "NACRE_DOCKER", "runsc"},
	} {
		r := reachable{name: e.name}
		socket := os.Getenv(e.variable)
		switch {
		case socket == "":
			r.missing = e.variable + " does not name an engine's socket"
		case e.runtime != "" && os.Getenv("NACRE_RUNSC") == "":
			r.missing = "NACRE_RUNSC does not name gVisor's runtime"
		default:
			b, err := container.Open(t.Context(), container.Options{
				Engine: e.engine, Socket: socket, Runtime: e.runtime, Image: image(t, socket), Init: binary, StateDir: t.TempDir(),
			})
			must(t, err)
			t.Cleanup(func() { _ = b.Close() })
			r.backend = b
		}
		all = append(all, r)
	}
	return all
}

// representative are the probes that run in each engine in CI: all that share a
// sandbox, and of the others one of each kind.
func representative(p probe.Probe) bool {
	return prove.Together(p) || slices.Contains([]string{
		"proc-init-signals", "late-git-hook", "late-git-config", "late-git-move", "late-git-nested", "late-npm-script", "late-envrc", "late-link-out",
		"late-survivor", "late-claude-settings", "res-forks", "res-memory", "res-tmp", "res-core", "res-file-size", "res-descriptors",
	}, p.Name)
}

// M-11, M-13: every engine that is here holds what it is said to hold; the whole
// suite is `make probes`.
func TestEnginesHoldTheProbesThatStandForAll(t *testing.T) {
	binary := helper(t)
	here := slices.DeleteFunc(engines(t, binary), func(r reachable) bool { return r.missing != "" })
	if len(here) == 0 {
		testpeer.Engine(t, "NACRE_DOCKER")
	}
	columns := fill(t, binary, here, representative)
	t.Logf("\n%s", show(columns))
}

// image makes an image of busybox, with the tools that probes start.
func image(t *testing.T, socket string) string {
	t.Helper()
	engine, err := client.New(client.WithHost(socket))
	must(t, err)
	defer func() { _ = engine.Close() }()
	const name = "nacre-probe"
	if _, err := engine.ImageInspect(t.Context(), name); err != nil {
		made, err := engine.ImageImport(t.Context(), client.ImageImportSource{Source: tools(t), SourceName: "-"}, name, client.ImageImportOptions{})
		must(t, err)
		_, err = io.Copy(io.Discard, made)
		must(t, err)
	}
	found, err := engine.ImageInspect(t.Context(), name)
	must(t, err)
	return "sha256:" + strings.TrimPrefix(found.ID, "sha256:")
}

// tools is a root file system with busybox as every program.
func tools(t *testing.T) io.Reader {
	t.Helper()
	busybox, err := exec.LookPath("busybox")
	must(t, err)
	program, err := os.ReadFile(busybox)
	must(t, err)
	list, err := exec.Command(busybox, "--list").Output()
	must(t, err)
	var root bytes.Buffer
	w := tar.NewWriter(&root)
	must(t, w.WriteHeader(&tar.Header{Name: "bin/busybox", Mode: 0o755, Size: int64(len(program)), Typeflag: tar.TypeReg}))
	_, err = w.Write(program)
	must(t, err)
	for tool := range strings.FieldsSeq(string(list)) {
		if tool != "busybox" {
			must(t, w.WriteHeader(&tar.Header{Name: "bin/" + tool, Linkname: "busybox", Typeflag: tar.TypeSymlink}))
		}
	}
	must(t, w.Close())
	return &root
}
