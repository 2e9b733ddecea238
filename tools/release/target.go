package main

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/apk"
	_ "github.com/goreleaser/nfpm/v2/arch"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// target is a release for one architecture of Linux or of macOS.
type target struct {
	build
	system, arch string
}

// linux is the system of sandboxes, whatever the target's own is.
const linux = "linux"

// Where things lie below /usr, or below the folder of a tarball. nacre looks for its
// other programs and for the plugins beside itself.
const (
	programs = "lib/nacre"
	manuals  = "share/man/man1"
	docs     = "share/doc/"
	units    = "share/systemd/user"
)

// unit is the service of a person's own systemd.
const unit = "nacre.service"

// completions are where each shell looks for them.
var completions = map[string]string{
	"bash/nacre": "share/bash-completion/completions/nacre", "zsh/_nacre": "share/zsh/site-functions/_nacre",
	"fish/nacre.fish": "share/fish/vendor_completions.d/nacre.fish",
}

// file is one of a release: what lies where, as what.
type file struct {
	from, to string
	mode     fs.FileMode
}

// product is a part of a release that is installed by itself.
type product struct {
	target
	title, description string
	needs, recommends  []string // packages
	program            string   // the one that its bill of materials is of
	files              []file
	// links lead from a place below /usr to another one.
	links map[string]string
}

// all makes what is installed, and the image that holds all of it. For macOS that is nacre's tarball alone.
func (t target) all(pages string) error {
	core, err := t.core(filepath.Join(t.work, t.system+"-"+t.arch), pages)
	if err != nil {
		return err
	}
	if t.system != linux {
		return first(core.materials(), core.tarball())
	}
	pods, err := t.pods(filepath.Join(t.work, t.arch+"-pods"))
	if err != nil {
		return err
	}
	for _, p := range []product{core, pods} {
		if err := p.publish(); err != nil {
			return fmt.Errorf("%s: %w", p.title, err)
		}
	}
	return t.image(core, pods)
}

// publish makes the tarball, the packages and the bill of materials.
func (p product) publish() error {
	if err := p.materials(); err != nil {
		return err
	}
	if err := p.tarball(); err != nil {
		return err
	}
	for _, format := range formats {
		if err := p.packaged(format); err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
	}
	return nil
}

// core is nacre with the built-in plugins.
func (t target) core(stage, pages string) (product, error) {
	p := product{
		target: t, title: "nacre", description: "The shell between an AI agent and everything it can touch.", recommends: []string{"git"},
		program: filepath.Join(stage, "nacre"), links: map[string]string{"bin/nacre": "../" + programs + "/nacre"},
	}
	if err := t.programs(stage); err != nil {
		return p, err
	}
	var err error
	p.files, err = t.files(stage, pages)
	return p, err
}

// pods is what starts sandboxes in pods of Kubernetes, beside nacre.
func (t target) pods(stage string) (product, error) {
	p := product{
		target: t, title: "nacre-k8s", description: "Starts nacre's sandboxes in pods of Kubernetes.", needs: []string{"nacre"},
		program: filepath.Join(stage, "nacre-k8s"),
	}
	for to, from := range map[string]string{"nacre-k8s": "./cmd/nacre-k8s", "pod/sandbox-init": "./cmd/sandbox-init"} {
		if err := t.compile(linux, t.arch, "k8s", filepath.Join(stage, to), from); err != nil {
			return p, err
		}
		p.files = append(p.files, file{filepath.Join(stage, to), path.Join(programs, to), 0o755})
	}
	manifests, err := filepath.Glob(filepath.Join(t.root, "k8s/manifests/*.yaml"))
	for _, from := range append(manifests, filepath.Join(t.root, "k8s/image/Dockerfile"), filepath.Join(t.root, "LICENSE")) {
		p.files = append(p.files, file{from, path.Join(docs, p.title, filepath.Base(from)), 0o644})
	}
	sorted(p.files)
	return p, err
}

// programs builds them, and puts the built-in plugins beside them. What runs in sandboxes is Linux's: elsewhere it
// has a folder of its own. Plugins run in sandboxes, too.
func (t target) programs(stage string) error {
	outside := []string{"./cmd/..."}
	if t.system != linux {
		outside = []string{"./cmd/nacre", "./cmd/nacre-hook", "./cmd/nacre-web"}
		inside := []string{"./cmd/sandbox-init", "./cmd/ipc", "./cmd/ipc-mcp", "./cmd/brain"}
		if err := t.compile(linux, t.arch, "", filepath.Join(stage, linux)+"/", inside...); err != nil {
			return err
		}
	}
	if err := t.compile(t.system, t.arch, "", stage+"/", outside...); err != nil {
		return err
	}
	plugins, err := os.ReadDir(filepath.Join(t.root, "plugins"))
	if err != nil {
		return err
	}
	for _, p := range plugins {
		from, to := filepath.Join(t.root, "plugins", p.Name()), filepath.Join(stage, "plugins", p.Name())
		if err := os.MkdirAll(filepath.Join(to, "skill"), 0o755); err != nil {
			return err
		}
		if err := t.compile(linux, t.arch, "", filepath.Join(to, "handler"), "./plugins/"+p.Name()); err != nil {
			return err
		}
		pages, err := filepath.Glob(filepath.Join(from, "skill", "*.md"))
		if err != nil {
			return err
		}
		for _, page := range append(pages, filepath.Join(from, "manifest.json")) {
			name, err := filepath.Rel(from, page)
			if err != nil {
				return err
			}
			data, err := os.ReadFile(page)
			if err != nil {
				return err
			}
			if err := write(filepath.Join(to, name), string(data)); err != nil {
				return err
			}
		}
	}
	return nil
}

// files are all that is installed, in the order of their names.
func (t target) files(stage, pages string) ([]file, error) {
	var list []file
	add := func(folder, to string) error {
		return filepath.WalkDir(folder, func(from string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, err := filepath.Rel(folder, from)
			if err != nil {
				return err
			}
			mode := fs.FileMode(0o644)
			if ext := filepath.Ext(name); ext != ".md" && ext != ".json" && to == programs {
				mode = 0o755
			}
			list = append(list, file{from, path.Join(to, filepath.ToSlash(name)), mode})
			return nil
		})
	}
	if err := add(stage, programs); err != nil {
		return nil, err
	}
	if err := add(filepath.Join(pages, "man"), manuals); err != nil {
		return nil, err
	}
	for from, to := range completions {
		list = append(list, file{filepath.Join(pages, "completions", from), to, 0o644})
	}
	if t.system == linux {
		list = append(list, file{filepath.Join(t.root, "tools/release", unit), path.Join(units, unit), 0o644})
	}
	for _, name := range []string{"LICENSE", "README.md", "SECURITY.md"} {
		list = append(list, file{filepath.Join(t.root, name), path.Join(docs, "nacre", name), 0o644})
	}
	// What nacre says and its config.toml name pages of docs/, which a person who has no source looks up here.
	for _, kind := range []string{"*.md", "*.svg", "*.png"} {
		pages, err := filepath.Glob(filepath.Join(t.root, "docs", kind))
		if err != nil {
			return nil, err
		}
		for _, page := range pages {
			list = append(list, file{page, path.Join(docs, "nacre/docs", filepath.Base(page)), 0o644})
		}
	}
	return sorted(list), nil
}

// name is that of a file that is released.
func (p product) name(ending string) string { return p.target.name(p.title, ending) }

func (t target) name(title, ending string) string {
	return fmt.Sprintf("%s_%s_%s_%s%s", title, strings.TrimPrefix(t.version, "v"), t.system, t.arch, ending)
}

// tarball has one folder; bin/nacre in it leads to the program.
func (p product) tarball() (err error) {
	out, err := os.Create(filepath.Join(p.out, p.name(".tar.gz")))
	if err != nil {
		return err
	}
	defer func() { err = first(err, out.Close()) }()
	zipped := gzip.NewWriter(out)
	archive := tar.NewWriter(zipped)
	if err := p.into(archive, p.name("")); err != nil {
		return err
	}
	return first(archive.Close(), zipped.Close())
}

// into writes the links and the files below a folder of an archive.
func (p product) into(archive *tar.Writer, top string) error {
	for _, from := range slices.Sorted(maps.Keys(p.links)) {
		link := tar.Header{Typeflag: tar.TypeSymlink, Name: top + "/" + from, Linkname: p.links[from], Mode: 0o777, ModTime: p.made}
		if err := archive.WriteHeader(&link); err != nil {
			return err
		}
	}
	for _, f := range p.files {
		if err := p.archived(archive, top, f); err != nil {
			return err
		}
	}
	return nil
}

func (t target) archived(archive *tar.Writer, top string, f file) error {
	in, err := os.Open(f.from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	header := tar.Header{Typeflag: tar.TypeReg, Name: top + "/" + f.to, Mode: int64(f.mode), Size: info.Size(), ModTime: t.made}
	if err := archive.WriteHeader(&header); err != nil {
		return err
	}
	_, err = io.Copy(archive, in)
	return err
}

// authors are who a package says that it is from.
const authors = "The nacre authors <nacre@localhost>"

// formats are the packages that are made.
var formats = []string{"deb", "rpm", "apk", "archlinux"}

// packaged makes a package of one format.
func (p product) packaged(format string) (err error) {
	info := &nfpm.Info{
		Name: p.title, Arch: p.arch, Platform: "linux", Version: p.numberOf(format), Section: "utils", Priority: "optional",
		Maintainer: authors, Description: p.description,
		Homepage: "https://github.com/nacre-dev/nacre", License: "Apache-2.0", MTime: p.made,
		Overridables: nfpm.Overridables{
			Depends: p.needs, Recommends: p.recommends, ArchLinux: nfpm.ArchLinux{Packager: authors},
			RPM: nfpm.RPM{BuildHost: "localhost"}, // by default the name of the machine, of which the bytes are to be independent
		},
	}
	for _, f := range p.files {
		info.Contents = append(info.Contents, &files.Content{
			Source: f.from, Destination: "/usr/" + f.to, FileInfo: &files.ContentFileInfo{Mode: f.mode, MTime: p.made, Owner: "root", Group: "root"},
		})
	}
	for from, to := range p.links {
		info.Contents = append(info.Contents, &files.Content{
			Type: files.TypeSymlink, Source: to, Destination: "/usr/" + from, FileInfo: &files.ContentFileInfo{MTime: p.made, Owner: "root", Group: "root"},
		})
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	info = nfpm.WithDefaults(info)
	info.Target = filepath.Join(p.out, packager.ConventionalFileName(info))
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	out, err := os.Create(info.Target)
	if err != nil {
		return err
	}
	defer func() { err = first(err, out.Close()) }()
	return packager.Package(info, out)
}
