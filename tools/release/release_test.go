package main

import (
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

// packed is what is released of two products that were made a while ago, by the names of the files.
func packed(t *testing.T, ago time.Duration) map[string]string {
	t.Helper()
	root, err := filepath.Abs("../..")
	check(t, err)
	b := build{root: root, out: t.TempDir(), version: "v1.2.0", made: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	core := product{target: target{b, "amd64"}, title: "nacre", program: os.Args[0], recommends: []string{"git"}, links: map[string]string{"bin/nacre": "../lib/nacre/nacre"}}
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
