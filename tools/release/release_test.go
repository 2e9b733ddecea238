package main

import (
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/schema"
	"go.yaml.in/yaml/v3"
)

// U-30: who packs the same programs elsewhere and at another time makes the same bytes.
func TestWhatIsPackedTwiceIsTheSame(t *testing.T) {
	one, two := packed(t, 0), packed(t, 1000*time.Hour)
	if len(one) != 2*(2+len(formats))+1 {
		t.Errorf("%d files were made", len(one))
	}
	for name, bytes := range one {
		if two[name] != bytes {
			t.Errorf("%s differs", name)
		}
	}
}

// U-30: the bytes of a package do not depend on the machine that packs it: an rpm has a field for its name.
func TestThePackagesNameNoMachine(t *testing.T) {
	found := 0
	for name, text := range packed(t, 0) {
		if !strings.HasSuffix(name, ".rpm") {
			continue
		}
		found++
		_, rest := rpmHeader(text[96:]) // the lead, then the signature
		have, _ := rpmHeader(rest)
		if host := have[1007]; host != "localhost" {
			t.Errorf("%s: the build host is %q", name, host)
		}
	}
	if found != 2 {
		t.Errorf("%d of them", found)
	}
}

// rpmHeader is what stands where each tag's value begins, up to its end, and what is behind the header.
func rpmHeader(text string) (values map[uint32]string, rest string) {
	number := func(at int) uint32 { return binary.BigEndian.Uint32([]byte(text[at : at+4])) }
	entries, size := int(number(8)), int(number(12))
	store := text[16+16*entries:]
	values = map[uint32]string{}
	for i := range entries {
		at := 16 + 16*i
		values[number(at)], _, _ = strings.Cut(store[number(at+8):size], "\x00")
	}
	return values, store[(size+7)/8*8:]
}

// U-30, U-33: what is installed has the pages that nacre's words name.
func TestAReleaseHasThePages(t *testing.T) {
	root, err := filepath.Abs("../..")
	check(t, err)
	pages := t.TempDir()
	check(t, os.Mkdir(filepath.Join(pages, "man"), 0o755))
	list, err := target{build: build{root: root}, system: linux, arch: "amd64"}.files(t.TempDir(), pages)
	check(t, err)
	have := map[string]bool{}
	for _, f := range list {
		have[f.to] = true
	}
	for _, want := range []string{"docs/config.md", "docs/README.md", "docs/demo.svg", "README.md", "LICENSE"} {
		if !have["share/doc/nacre/"+want] {
			t.Errorf("%s is not in a release", want)
		}
	}
}

// U-30: a version of each format is one that its package manager takes: apk's and Arch's know no ~.
func TestAVersionIsOneOfTheFormat(t *testing.T) {
	made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct{ version, format, want string }{
		{"v1.2.0", "apk", "1.2.0"},
		{"v1.2.0", "deb", "1.2.0"},
		{"62ee8540-dirty", "deb", "0.0.0~62ee8540+dirty"},
		{"62ee8540-dirty", "rpm", "0.0.0~62ee8540+dirty"},
		{"62ee8540-dirty", "apk", "0.0.0_git20260102030405"},
		{"62ee8540-dirty", "archlinux", "0.0.0_git20260102030405"},
	} {
		if have := (build{version: c.version, made: made}).numberOf(c.format); have != c.want {
			t.Errorf("%s as %s: have %s, want %s", c.version, c.format, have, c.want)
		}
	}
}

// packed is what is released of two products that were made a while ago, by the names of the files.
func packed(t *testing.T, ago time.Duration) map[string]string {
	t.Helper()
	root, err := filepath.Abs("../..")
	check(t, err)
	b := build{root: root, out: t.TempDir(), version: "v1.2.0", made: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	core := product{target: target{b, linux, "amd64"}, title: "nacre", program: os.Args[0], recommends: []string{"git"}, links: map[string]string{"bin/nacre": "../lib/nacre/nacre"}}
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"nacre": 0o755, "ipc": 0o755, "README.md": 0o644} {
		from := filepath.Join(dir, name)
		check(t, os.WriteFile(from, []byte(name), 0o600))
		check(t, os.Chtimes(from, time.Time{}, time.Now().Add(-ago)))
		core.files = append(core.files, file{from, "lib/nacre/" + name, mode})
	}
	sorted(core.files)
	pods := core
	pods.title, pods.needs, pods.links = "nacre-k8s", []string{"nacre"}, nil
	check(t, core.publish())
	check(t, pods.publish())
	check(t, core.image(core, pods))
	made, err := os.ReadDir(b.out)
	check(t, err)
	texts := map[string]string{}
	for _, m := range made {
		text, err := os.ReadFile(filepath.Join(b.out, m.Name()))
		check(t, err)
		texts[m.Name()] = string(text)
	}
	return texts
}

// M-62: the compose file is one, and names what the image and its config.toml have.
func TestTheComposeFile(t *testing.T) {
	text, err := os.ReadFile("../../examples/serve/compose.yaml")
	check(t, err)
	config, err := os.ReadFile("../../examples/serve/config.toml")
	check(t, err)
	var whole map[string]any
	check(t, yaml.Unmarshal(text, &whole))
	check(t, schema.Validate(whole))
	var file struct {
		Services map[string]struct {
			Image       string
			Environment map[string]string
			Ports       []string
			Volumes     []string
		}
	}
	check(t, yaml.Unmarshal(text, &file))
	service := file.Services["nacre"]
	var mounted []string
	for _, v := range service.Volumes {
		mounted = append(mounted, strings.Split(v, ":")[1])
	}
	if !strings.HasPrefix(service.Image, "nacre:") || len(file.Services) != 1 {
		t.Errorf("the image is %q", service.Image)
	}
	want := imageHome + " " + imageHome + "/.config/nacre/config.toml /etc/nacre/kubeconfig /etc/ssl/certs"
	if have := strings.Join(mounted, " "); have != want {
		t.Errorf("mounted: have %s, want %s", have, want)
	}
	ports, _, _ := strings.Cut(service.Ports[0], ":")
	for _, line := range []string{`listen = "0.0.0.0:` + ports + `"`, `kubeconfig = "/etc/nacre/kubeconfig"`, `brain = "anthropic"`} {
		if !strings.Contains(string(config), line+"\n") {
			t.Errorf("config.toml lacks %s", line)
		}
	}
	settings, err := os.ReadFile("../../docs/config.md")
	check(t, err)
	for name := range maps.Keys(service.Environment) {
		if !strings.Contains(string(settings), name) {
			t.Errorf("docs/config.md does not name %s", name)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
