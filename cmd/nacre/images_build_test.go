package main_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// bareImage stands for the recipes' own first layer, which is not pulled here:
// the same release of the same distribution, made of its packages.
const bareImage = "nacre-test-debian"

// debianMirror is where this machine's apt has Debian's packages from, without
// the "/debian" at its end.
func debianMirror(t *testing.T) string {
	t.Helper()
	out, err := exec.Command(testpeer.Need(t, "apt-get"), "indextargets", "--format", "$(SITE)", "Created-By: Packages").Output()
	if err != nil {
		t.Skipf("apt-get indextargets: %v", err)
	}
	for site := range strings.Lines(string(out)) {
		if mirror, ok := strings.CutSuffix(strings.TrimSpace(site), "/debian"); ok && strings.HasPrefix(mirror, "http://") {
			return mirror
		}
	}
	t.Skip("apt has no mirror of Debian's by plain http here")
	return ""
}

// bareDebian is a root file system as the image has that the recipes begin with,
// packed: it includes sources that nobody serves.
func bareDebian(ctx context.Context, t *testing.T, mirror string) string {
	t.Helper()
	sources := "Types: deb\n# http://comment.invalid/debian\nURIs: http://nobody.invalid/debian\nSuites: " + release(t) + "\nComponents: main\n"
	dir := t.TempDir()
	root := filepath.Join(dir, "root.tar")
	// In namespaces of its own: what it mounts and starts ends with it.
	command := exec.CommandContext(ctx, testpeer.Need(t, "mmdebstrap"), "--mode=root", "--variant=minbase",
		"--dpkgopt=force-unsafe-io", "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*",
		`--customize-hook=rm "$1"/etc/apt/sources.list "$1"/etc/resolv.conf "$1"/etc/hostname`,
		`--customize-hook=printf %s '`+sources+`' >"$1"/etc/apt/sources.list.d/debian.sources`, release(t), root, mirror+"/debian")
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS}
	command.Env, command.WaitDelay = append(os.Environ(), "TMPDIR="+dir), 5*time.Second
	if out, err := command.CombinedOutput(); err != nil {
		t.Skipf("mmdebstrap: %v: %s", err, out[max(0, len(out)-2000):])
	}
	return root
}

// release is the one of the recipes' base, such as "trixie".
func release(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../images/base/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	base := regexp.MustCompile(`(?m)^ARG BASE=debian:([a-z]+)-slim@`).FindSubmatch(text)
	if base == nil {
		t.Fatalf("no Debian is named in %s", text)
	}
	return string(base[1])
}

// imageEngine is an engine that builds images, and starts them later.
type imageEngine struct{ name, socket, runtime string }

func (e imageEngine) importRoot(ctx context.Context, root string) error {
	engine, err := client.New(client.WithHost(e.socket))
	if err != nil {
		return err
	}
	defer func() { _ = engine.Close() }()
	packed, err := os.Open(root)
	if err != nil {
		return err
	}
	defer func() { _ = packed.Close() }() // read-only
	imported, err := engine.ImageImport(ctx, client.ImageImportSource{Source: packed, SourceName: "-"}, bareImage, client.ImageImportOptions{})
	if err != nil {
		return err
	}
	return follow(imported)
}

// buildRecipe builds what `docker build` of the documentation does.
func (e imageEngine) buildRecipe(ctx context.Context, recipe string, args map[string]string) error {
	text, err := os.ReadFile(filepath.Join("../../images", recipe, "Dockerfile"))
	if err != nil {
		return err
	}
	return e.build(ctx, "nacre-"+recipe, string(text), args)
}

func (e imageEngine) build(ctx context.Context, name, dockerfile string, args map[string]string) error {
	engine, err := client.New(client.WithHost(e.socket))
	if err != nil {
		return err
	}
	defer func() { _ = engine.Close() }()
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	err = w.WriteHeader(&tar.Header{Name: "Dockerfile", Mode: 0o644, Size: int64(len(dockerfile))})
	if err == nil {
		_, err = io.WriteString(w, dockerfile)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	o := client.ImageBuildOptions{Tags: []string{name}, Remove: true, ForceRemove: true, NetworkMode: "host", BuildArgs: map[string]*string{}}
	for key, value := range args {
		o.BuildArgs[key] = &value
	}
	built, err := engine.ImageBuild(ctx, &files, o)
	if err == nil {
		err = follow(built.Body)
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", e.name, name, err)
	}
	return nil
}

// follow reads what an engine says while it works, and returns its complaint.
func follow(said io.ReadCloser) error {
	defer func() { _ = said.Close() }()
	var last []string
	for lines := json.NewDecoder(said); ; {
		var line struct{ Stream, Error string }
		switch err := lines.Decode(&line); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case line.Error != "":
			return fmt.Errorf("%s: %s", line.Error, strings.Join(last, ""))
		}
		last = append(last[max(0, len(last)-30):], line.Stream)
	}
}

func (e imageEngine) inspect(t *testing.T, name string) client.ImageInspectResult {
	t.Helper()
	engine, err := client.New(client.WithHost(e.socket))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = engine.Close() }()
	found, err := engine.ImageInspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// checkPlain: an image is files alone, over the base's and the bare one's.
func (e imageEngine) checkPlain(t *testing.T, recipe string) {
	t.Helper()
	bare, base, have := e.inspect(t, bareImage), e.inspect(t, "nacre-base"), e.inspect(t, "nacre-"+recipe)
	for _, under := range [][]string{bare.RootFS.Layers, base.RootFS.Layers} {
		if len(under) == 0 || len(have.RootFS.Layers) < len(under) || !slices.Equal(have.RootFS.Layers[:len(under)], under) {
			t.Errorf("%s: %q are not over %q", recipe, have.RootFS.Layers, under)
		}
	}
	c := have.Config
	named := slices.DeleteFunc(slices.Clone(c.Env), func(kv string) bool { return strings.HasPrefix(kv, "PATH=") })
	if len(named)+len(c.Entrypoint)+len(c.Volumes)+len(c.ExposedPorts) > 0 || c.User != "" {
		t.Errorf("%s brings %+v along", recipe, c)
	}
}
