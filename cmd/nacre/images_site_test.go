package main_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// packageSite is a server of one package in the forms of Go, npm and PyPI.
type packageSite struct {
	// egress is the part of an operator's config that lets it be reached as packages.test.
	egress string
}

func newPackageSite(t *testing.T) packageSite {
	t.Helper()
	const module, metadata = "packages.test/hello@v1.0.0/", "hello-1.0.dist-info/"
	npm := "/npm/hello-1.0.0.tgz"
	files := map[string]string{
		"/hello":                                 "hello from a package\n",
		"/go/packages.test/hello/@v/v1.0.0.info": `{"Version":"v1.0.0"}`,
		"/go/packages.test/hello/@v/v1.0.0.mod":  "module packages.test/hello\n",
		"/go/packages.test/hello/@v/v1.0.0.zip": zipped(t, map[string]string{
			module + "go.mod": "module packages.test/hello\n", module + "hello.go": "package hello\n\nconst Text = \"hello from a package\"\n",
		}),
		"/npm/hello": `{"name":"hello","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"hello","version":"1.0.0","dist":{"tarball":"http://packages.test` + npm + `"}}}}`,
		npm: tarred(t, map[string]string{
			"package/package.json": `{"name":"hello","version":"1.0.0"}`, "package/index.js": `module.exports = "hello from a package"`,
		}),
		"/pypi/hello/": `<a href="hello-1.0-py3-none-any.whl">hello-1.0-py3-none-any.whl</a>`,
		"/pypi/hello/hello-1.0-py3-none-any.whl": zipped(t, map[string]string{
			"hello.py": "text = 'hello from a package'\n", metadata + "METADATA": "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n",
			metadata + "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n", metadata + "RECORD": "",
		}),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, known := files[r.URL.Path]
		if !known {
			http.NotFound(w, r)
			return
		}
		if r.URL.Path == "/pypi/hello/" {
			w.Header().Set("Content-Type", "text/html")
		}
		_, _ = io.WriteString(w, text) // the client is a sandbox's, and says so itself
	}))
	t.Cleanup(server.Close)
	return packageSite{fmt.Sprintf("[egress]\nallow = [\"packages.test:80/http\"]\n[egress.pin]\n\"packages.test:80\" = %q\n", server.Listener.Addr())}
}

func zipped(t *testing.T, files map[string]string) string {
	t.Helper()
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	for name, text := range files {
		f, err := w.Create(name)
		if err == nil {
			_, err = io.WriteString(f, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.String()
}

func tarred(t *testing.T, files map[string]string) string {
	t.Helper()
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	w := tar.NewWriter(compressed)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := compressed.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.String()
}
