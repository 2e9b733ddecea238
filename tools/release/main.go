// Command release makes what people install. For each target of Linux that is a tarball and packages for Debian, RPM,
// Alpine and Arch, each with the programs, the built-in plugins, completions and man pages. There is the same of what
// starts pods of Kubernetes, and an image with both. For macOS there is a tarball. There are bills of materials, a Homebrew
// formula, the installer, and the checksums of all of them. The same commit makes the same bytes.
//
// It is started in the project's folder: go run -C tools/release . --root DIR.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	root := flag.String("root", ".", "folder of the project")
	out := flag.String("out", "dist", "folder that is made anew with what is released")
	version := flag.String("version", "", "version, such as v1.2.0 (default: what git describes)")
	targets := flag.String("targets", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "OS/ARCH, with commas between")
	key := flag.String("sign", "", "signs the checksums: a private key of OpenSSH's, or the public one of a key that its agent holds")
	flag.Parse()
	if err := release(*root, *out, *version, strings.Split(*targets, ","), *key); err != nil {
		log.Fatal("release: ", err)
	}
}

// build is what every target of a release shares.
type build struct {
	root, out, work string
	version         string
	// made is when the commit was made: the time of every file.
	made time.Time
}

func release(root, out, version string, targets []string, key string) error {
	b, err := begin(root, out, version)
	if err != nil {
		return err
	}
	defer os.RemoveAll(b.work)
	pages, err := b.pages()
	if err != nil {
		return err
	}
	for _, name := range targets {
		system, arch, ok := strings.Cut(name, "/")
		if !ok || system != "linux" && system != "darwin" {
			return fmt.Errorf("%q is no target: use linux or darwin, then /amd64 or /arm64", name)
		}
		t := target{build: b, system: system, arch: arch}
		if err := t.all(pages); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := b.installer(); err != nil {
		return err
	}
	if err := b.formula(); err != nil {
		return err
	}
	if err := b.checksums(); err != nil || key == "" {
		return err
	}
	return b.sign(key)
}

func begin(root, out, version string) (build, error) {
	b := build{version: version}
	var err error
	if b.root, err = filepath.Abs(root); err != nil {
		return b, err
	}
	if b.out, err = filepath.Abs(filepath.Join(b.root, out)); err != nil {
		return b, err
	}
	if b.version == "" {
		if b.version, err = b.said("git", "describe", "--tags", "--always", "--dirty"); err != nil {
			return b, err
		}
	}
	made, err := b.said("git", "log", "-1", "--format=%cI")
	if err != nil {
		return b, err
	}
	if b.made, err = time.Parse(time.RFC3339, made); err != nil {
		return b, err
	}
	b.made = b.made.UTC()
	if err := os.RemoveAll(b.out); err != nil {
		return b, err
	}
	if err := os.MkdirAll(b.out, 0o755); err != nil {
		return b, err
	}
	b.work, err = os.MkdirTemp("", "nacre-release-")
	return b, err
}

// said is what a command prints, without the line's end.
func (b build) said(name string, args ...string) (string, error) {
	command := exec.Command(name, args...)
	command.Dir, command.Stderr = b.root, os.Stderr
	data, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(data)), nil
}

// number is the version as packages spell it.
func (b build) number() string {
	number := strings.TrimPrefix(b.version, "v")
	if !strings.Contains(number, ".") { // a commit without a tag before it
		return "0.0.0~" + strings.ReplaceAll(number, "-", "+")
	}
	return number
}

// numberOf is the version as packages of a format spell it. Alpine's and Arch's have no sign for what is before a release.
func (b build) numberOf(format string) string {
	if _, _, untagged := strings.Cut(b.number(), "~"); untagged && (format == "apk" || format == "archlinux") {
		return "0.0.0_git" + b.made.Format("20060102150405")
	}
	return b.number()
}

// pages makes what is the same on every target: completions and man pages.
func (b build) pages() (folder string, err error) {
	folder = filepath.Join(b.work, "pages")
	nacre := filepath.Join(b.work, "nacre")
	if err := b.compile("", "", "", nacre, "./cmd/nacre"); err != nil {
		return "", err
	}
	for shell, file := range map[string]string{"bash": "bash/nacre", "zsh": "zsh/_nacre", "fish": "fish/nacre.fish"} {
		script, err := b.said(nacre, "completion", shell)
		if err != nil {
			return "", err
		}
		if err := write(filepath.Join(folder, "completions", file), script+"\n"); err != nil {
			return "", err
		}
	}
	man := filepath.Join(folder, "man")
	if err := os.MkdirAll(man, 0o755); err != nil {
		return "", err
	}
	command := exec.Command("go", "test", "-vet=off", "-count=1", "-run", "^TestEveryCommandHasAManPage$", "./cmd/nacre")
	command.Dir, command.Stdout, command.Stderr = b.root, os.Stderr, os.Stderr
	command.Env = append(os.Environ(), "NACRE_BUILT="+b.work, "NACRE_MAN="+man, "NACRE_MAN_VERSION="+b.version, "NACRE_MAN_DATE="+b.made.Format(time.RFC3339))
	return folder, command.Run()
}

// compile builds packages of a module, which is a folder of the project, for a system and an
// architecture; for the host where they are empty.
func (b build) compile(system, arch, module, to string, packages ...string) error {
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid= -X main.version=" + b.version, "-o", to}
	command := exec.Command("go", append(args, packages...)...)
	command.Dir, command.Stdout, command.Stderr = filepath.Join(b.root, module), os.Stderr, os.Stderr
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if arch != "" {
		command.Env = append(command.Env, "GOOS="+system, "GOARCH="+arch)
	}
	return command.Run()
}

func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// checksums are of all that is released, in the form that sha256sum -c reads.
func (b build) checksums() error {
	entries, err := os.ReadDir(b.out)
	if err != nil {
		return err
	}
	var lines []string
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(b.out, e.Name()))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		lines = append(lines, hex.EncodeToString(sum[:])+"  "+e.Name()+"\n")
	}
	slices.Sort(lines)
	return write(filepath.Join(b.out, "checksums.txt"), strings.Join(lines, ""))
}
