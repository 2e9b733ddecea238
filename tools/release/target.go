package main

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/apk"
	_ "github.com/goreleaser/nfpm/v2/arch"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// target is a release for one architecture of Linux.
type target struct {
	build
	arch string
}

// Where things lie below /usr, or below the folder of a tarball. nacre looks for its
// other programs and for the plugins beside itself.
const (
	programs = "lib/nacre"
	manuals  = "share/man/man1"
	docs     = "share/doc/nacre"
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

// all makes the tarball, the packages and the bill of materials.
func (t target) all(pages string) error {
	stage := filepath.Join(t.work, t.arch)
	if err := t.programs(stage); err != nil {
		return err
	}
	list, err := t.files(stage, pages)
	if err != nil {
		return err
	}
	if err := t.materials(filepath.Join(stage, "nacre")); err != nil {
		return err
	}
	if err := t.tarball(list); err != nil {
		return err
	}
	for _, format := range []string{"deb", "rpm", "apk", "archlinux"} {
		if err := t.packaged(format, list); err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
	}
	return nil
}

// programs builds them, and puts the built-in plugins beside them.
func (t target) programs(stage string) error {
	if err := os.MkdirAll(stage, 0o755); err != nil {
		return err
	}
	if err := t.compile(t.arch, stage+"/", "./cmd/..."); err != nil {
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
		if err := t.compile(t.arch, filepath.Join(to, "handler"), "./plugins/"+p.Name()); err != nil {
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
	list = append(list, file{filepath.Join(t.root, "tools/release", unit), path.Join(units, unit), 0o644})
	for _, name := range []string{"LICENSE", "README.md", "SECURITY.md"} {
		list = append(list, file{filepath.Join(t.root, name), path.Join(docs, name), 0o644})
	}
	return sorted(list), nil
}

// name is that of a file that is released.
func (t target) name(ending string) string {
	return fmt.Sprintf("nacre_%s_linux_%s%s", strings.TrimPrefix(t.version, "v"), t.arch, ending)
}

// tarball has one folder; bin/nacre in it leads to the program.
func (t target) tarball(list []file) (err error) {
	out, err := os.Create(filepath.Join(t.out, t.name(".tar.gz")))
	if err != nil {
		return err
	}
	defer func() { err = first(err, out.Close()) }()
	zipped, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(zipped)
	top := t.name("")
	link := tar.Header{Typeflag: tar.TypeSymlink, Name: top + "/bin/nacre", Linkname: "../" + programs + "/nacre", Mode: 0o777, ModTime: t.made}
	if err := archive.WriteHeader(&link); err != nil {
		return err
	}
	for _, f := range list {
		if err := t.archived(archive, top, f); err != nil {
			return err
		}
	}
	return first(archive.Close(), zipped.Close())
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

// packaged makes a package of one format.
func (t target) packaged(format string, list []file) (err error) {
	info := &nfpm.Info{
		Name: "nacre", Arch: t.arch, Platform: "linux", Version: t.number(), Section: "utils", Priority: "optional",
		Maintainer:  "The nacre authors <nacre@localhost>",
		Description: "The shell between an AI agent and everything it can touch.",
		Homepage:    "https://github.com/nacre-dev/nacre", License: "Apache-2.0", MTime: t.made,
		Overridables: nfpm.Overridables{Recommends: []string{"git"}},
	}
	for _, f := range list {
		info.Contents = append(info.Contents, &files.Content{
			Source: f.from, Destination: "/usr/" + f.to, FileInfo: &files.ContentFileInfo{Mode: f.mode, MTime: t.made, Owner: "root", Group: "root"},
		})
	}
	info.Contents = append(info.Contents, &files.Content{
		Type: files.TypeSymlink, Source: "../" + programs + "/nacre", Destination: "/usr/bin/nacre", FileInfo: &files.ContentFileInfo{MTime: t.made, Owner: "root", Group: "root"},
	})
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	info = nfpm.WithDefaults(info)
	info.Target = filepath.Join(t.out, packager.ConventionalFileName(info))
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
