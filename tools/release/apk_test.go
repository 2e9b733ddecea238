package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha1" //nolint:gosec // what apk-tools holds files against
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
)

// U-30: the apk is what apk-tools reads. It is a stream of control files, whose .PKGINFO names the digest of the
// stream of data behind it, and a digest of each file in its header. Of what apk-tools would refuse nothing is there.
func TestTheApkIsOne(t *testing.T) {
	found := 0
	for name, text := range packed(t, 0) {
		if !strings.HasSuffix(name, ".apk") {
			continue
		}
		found++
		rest := bytes.NewReader([]byte(text))
		control := stream(t, rest)
		data := []byte(text)[len(text)-rest.Len():]
		content := stream(t, rest)
		if rest.Len() != 0 {
			t.Errorf("%s: %d bytes are behind its streams", name, rest.Len())
		}
		if bytes.HasSuffix(control, make([]byte, 1024)) {
			t.Errorf("%s: the control stream ends an archive, and apk-tools reads on", name)
		}
		about := map[string]string{}
		for _, f := range members(t, append(control, make([]byte, 1024)...)) {
			if f.Name != ".PKGINFO" {
				continue
			}
			for line := range strings.Lines(f.text) {
				if key, value, is := strings.Cut(strings.TrimSpace(line), " = "); is {
					about[key] = value
				}
			}
		}
		digest := sha256.Sum256(data)
		if about["datahash"] != hex.EncodeToString(digest[:]) {
			t.Errorf("%s: datahash is %q, of the data %x", name, about["datahash"], digest)
		}
		if about["pkgver"] != "1.2.0" && about["pkgver"] != "1.2.0-r0" || about["arch"] != "x86_64" || !strings.HasPrefix(name, about["pkgname"]) {
			t.Errorf("%s: have %v", name, about)
		}
		var paths []string
		for _, f := range members(t, content) {
			if above := path.Dir(strings.TrimSuffix(f.Name, "/")); above != "." && !slices.Contains(paths, above) {
				t.Errorf("%s: %s comes before an entry of its folder, and apk-tools ends there", name, f.Name)
			}
			paths = append(paths, strings.TrimSuffix(f.Name, "/"))
			if f.Typeflag != tar.TypeReg {
				continue
			}
			of := sha1.Sum([]byte(f.text)) //nolint:gosec // as above
			if have := f.PAXRecords["APK-TOOLS.checksum.SHA1"]; have != hex.EncodeToString(of[:]) {
				t.Errorf("%s: %s has the digest %q, and is %x", name, f.Name, have, of)
			}
			if f.Uid != 0 || f.Gid != 0 || fs.FileMode(f.Mode)&0o022 != 0 || strings.HasPrefix(f.Name, "/") || strings.Contains(f.Name, "..") { //nolint:gosec // a mode
				t.Errorf("%s: %s is of %d:%d, %o", name, f.Name, f.Uid, f.Gid, f.Mode)
			}
		}
		if !slices.Contains(paths, "usr/lib/nacre/nacre") {
			t.Errorf("%s: have %q", name, paths)
		}
	}
	if found != 2 {
		t.Errorf("%d of them", found)
	}
}

// stream is the next gzip stream.
func stream(t *testing.T, from *bytes.Reader) []byte {
	t.Helper()
	z, err := gzip.NewReader(from)
	check(t, err)
	z.Multistream(false)
	text, err := io.ReadAll(z)
	check(t, err)
	return text
}

// member is a file of a tar.
type member struct {
	*tar.Header
	text string
}

func members(t *testing.T, archive []byte) (all []member) {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		check(t, err)
		text, err := io.ReadAll(r)
		check(t, err)
		all = append(all, member{h, string(text)})
	}
}
