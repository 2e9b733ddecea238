package compat_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// files are what the static sites serve, by site and path.
type files map[string][]byte

// entry is one file of an archive.
type entry struct{ name, text string }

// newFiles makes one package called dep for each package manager.
func newFiles(t *testing.T) files {
	t.Helper()
	f := files{}
	f.npm(t)
	f.pypi(t)
	f.crates(t)
	f.goproxy(t)
	f.apt(t)
	return f
}

// npmPackages are what npm ci fetches, many at once.
func npmPackages() []string {
	names := []string{"dep"}
	for i := range 40 {
		names = append(names, fmt.Sprintf("many-%d", i))
	}
	return names
}

func npmTarball(name string) string {
	return fmt.Sprintf("https://npm.%s/%s/-/%s-1.0.0.tgz", domain, name, name)
}

func (f files) npm(t *testing.T) {
	for _, name := range npmPackages() {
		tarball := tarGzip(t, entry{"package/package.json", fmt.Sprintf(`{"name":%q,"version":"1.0.0","main":"index.js"}`, name)},
			entry{"package/index.js", "module.exports = 'dep works'\n"})
		f["npm/"+name+"/-/"+name+"-1.0.0.tgz"] = tarball
		f["npm/"+name] = fmt.Appendf(nil, `{"name":%q,"dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":%q,"version":"1.0.0","dist":{"tarball":%q,"integrity":%q}}}}`,
			name, name, npmTarball(name), integrity(tarball))
	}
}

func integrity(b []byte) string {
	sum := sha512.Sum512(b)
	return "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

// lockfile writes what npm ci installs from.
func (s *servers) lockfile(dir string) error {
	wants, packages := map[string]string{}, map[string]any{}
	for _, name := range npmPackages() {
		wants[name] = "1.0.0"
		packages["node_modules/"+name] = map[string]string{
			"version": "1.0.0", "resolved": npmTarball(name), "integrity": integrity(s.files["npm/"+name+"/-/"+name+"-1.0.0.tgz"]),
		}
	}
	project := map[string]any{"name": "p", "version": "1.0.0", "dependencies": wants}
	packages[""] = project
	lock := map[string]any{"name": "p", "version": "1.0.0", "lockfileVersion": 3, "packages": packages}
	for name, content := range map[string]any{"package.json": project, "package-lock.json": lock} {
		text, err := json.Marshal(content)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil { //nolint:gosec // the sandbox's user reads it
			return err
		}
	}
	return nil
}

func (f files) pypi(t *testing.T) {
	const wheel = "dep-1.0-py3-none-any.whl"
	f["pypi/files/"+wheel] = zipped(t, entry{"dep.py", "text = 'dep works'\n"},
		entry{"dep-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: dep\nVersion: 1.0\n"},
		entry{"dep-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		entry{"dep-1.0.dist-info/RECORD", "dep.py,,\ndep-1.0.dist-info/METADATA,,\ndep-1.0.dist-info/WHEEL,,\ndep-1.0.dist-info/RECORD,,\n"})
	f["pypi/simple/dep/"] = fmt.Appendf(nil, `<!DOCTYPE html><html><body><a href="../../files/%s#sha256=%s">%s</a></body></html>`,
		wheel, hash(f["pypi/files/"+wheel]), wheel)
}

func (f files) crates(t *testing.T) {
	crate := tarGzip(t, entry{"dep-1.0.0/Cargo.toml", "[package]\nname = \"dep\"\nversion = \"1.0.0\"\nedition = \"2021\"\n"},
		entry{"dep-1.0.0/src/lib.rs", "pub fn text() -> &'static str { \"dep works\" }\n"})
	f["crates/dl/dep/1.0.0/download"] = crate
	f["crates/index/config.json"] = []byte(`{"dl":"https://crates.` + domain + `/dl"}`)
	f["crates/index/3/d/dep"] = fmt.Appendf(nil, `{"name":"dep","vers":"1.0.0","deps":[],"cksum":%q,"features":{},"yanked":false}`+"\n", hash(crate))
}

func (f files) goproxy(t *testing.T) {
	const mod, dir = "module example.test/dep\n\ngo 1.21\n", "goproxy/example.test/dep/@v/"
	f[dir+"list"] = []byte("v1.0.0\n")
	f[dir+"v1.0.0.info"] = []byte(`{"Version":"v1.0.0","Time":"2026-01-01T00:00:00Z"}`)
	f[dir+"v1.0.0.mod"] = []byte(mod)
	f[dir+"v1.0.0.zip"] = zipped(t, entry{"example.test/dep@v1.0.0/go.mod", mod}, entry{"example.test/dep@v1.0.0/dep.go", "package dep\n"},
		entry{"example.test/dep@v1.0.0/deptool/main.go", "package main\n\nfunc main() { println(\"dep works\") }\n"})
}

// apt is a flat repository without a signature.
func (f files) apt(t *testing.T) {
	deb := archive(
		entry{"debian-binary", "2.0\n"},
		entry{"control.tar.gz", string(tarGzip(t, entry{"./control", "Package: dep\nVersion: 1.0\nArchitecture: all\nMaintainer: t <t@example.invalid>\nDescription: t\n"}))},
		entry{"data.tar.gz", string(tarGzip(t, entry{"./usr/share/dep.txt", "dep works\n"}))})
	f["apt/dep_1.0_all.deb"] = deb
	packages := fmt.Appendf(nil, "Package: dep\nVersion: 1.0\nArchitecture: all\nMaintainer: t <t@example.invalid>\nFilename: ./dep_1.0_all.deb\nSize: %d\nSHA256: %s\nDescription: t\n\n",
		len(deb), hash(deb))
	f["apt/Packages"] = packages
	f["apt/Release"] = fmt.Appendf(nil, "Origin: t\nLabel: t\nSuite: t\nDate: %s\nSHA256:\n %s %d Packages\n",
		time.Now().UTC().Format(time.RFC1123), hash(packages), len(packages))
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func tarGzip(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, e := range entries {
		must(t, w.WriteHeader(&tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.text)), ModTime: time.Unix(1_700_000_000, 0)}))
		_, err := w.Write([]byte(e.text))
		must(t, err)
	}
	must(t, w.Close())
	must(t, z.Close())
	return b.Bytes()
}

func zipped(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		file, err := w.Create(e.name)
		must(t, err)
		_, err = file.Write([]byte(e.text))
		must(t, err)
	}
	must(t, w.Close())
	return b.Bytes()
}

// archive is ar's format, which holds a Debian package.
func archive(entries ...entry) []byte {
	b := []byte("!<arch>\n")
	for _, e := range entries {
		b = fmt.Appendf(b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n%s", e.name, 0, 0, 0, "100644", len(e.text), e.text)
		if len(e.text)%2 == 1 {
			b = append(b, '\n')
		}
	}
	return b
}
