package main_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

const (
	registryPassword = "quiet-harbour-registry"
	// registryUsers is that password of ada's, as htpasswd keeps it.
	registryUsers = "ada:$2b$12$XSQxYHssrxHEOuL5aIJgdeLrFyvTFsUdyZ.LUuCf3x32Xrc0UceYO\n"
)

// imageRegistry is a registry of containers behind TLS, which lets in whom auth says; in it,
// %s is a file that holds text.
func imageRegistry(t *testing.T, auth, text string) *httptest.Server {
	t.Helper()
	program, dir := testpeer.Need(t, "docker-registry"), t.TempDir()
	socket := filepath.Join(dir, "socket")
	for name, text := range map[string]string{
		"known": text,
		"config.yml": fmt.Sprintf("version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {net: unix, addr: %s, relativeurls: true}\nauth: "+auth+"\n",
			filepath.Join(dir, "kept"), socket, filepath.Join(dir, "known")),
	} {
		check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	ctx, end := context.WithCancel(t.Context())
	serves := exec.CommandContext(ctx, program, "serve", filepath.Join(dir, "config.yml"))
	check(t, serves.Start())
	t.Cleanup(func() { end(); _ = serves.Wait() }) // it was ended
	eventually(t, "the registry listens", func() bool { _, err := os.Stat(socket); return err == nil })
	front := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "registry"})
	front.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	server := httptest.NewTLSServer(front)
	t.Cleanup(server.Close)
	return server
}

// imageAbout is what the smallest image there is says of itself.
const imageAbout = `{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]},"config":{}}`

// image writes the smallest image there is into the project p.
func (i *installation) image() {
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(imageAbout)))
	i.write("p/image/"+sum, imageAbout)
	i.write("p/image/version", "Directory Transport Version: 1.1\n")
	i.write("p/image/manifest.json", fmt.Sprintf(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:%s","size":%d},"layers":[]}`, sum, len(imageAbout)))
}

// M-36: images are fetched from a registry that wants a password, which stays outside; none is pushed
// and none deleted.
func TestImagesAreFetchedAndNotPushed(t *testing.T) {
	t.Parallel()
	skopeo := testpeer.Need(t, "skopeo")
	testpeer.Need(t, "curl")
	server := imageRegistry(t, "{htpasswd: {realm: images, path: %s}}", registryUsers)
	i := install(t)
	i.image()
	filled := i.command(skopeo, "--insecure-policy", "copy", "--dest-tls-verify=false", "--dest-creds", "ada:"+registryPassword, "dir:p/image", "docker://"+server.Listener.Addr().String()+"/acme/app:1")
	if text, err := filled.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	i.config(fmt.Sprintf("[egress]\nallow = [\"images.example.com:443\"]\npin = { \"images.example.com:443\" = %q }\n"+
		"[[credential]]\nname = \"images\"\nhost = \"images.example.com:443\"\nscheme = \"basic\"\nuser = \"ada\"\npaths = [\"/v2/\"]\ngroups = [\"main\"]\nstanding_secret = true\nvalue_file = %q\nca_file = %q\n",
		server.Listener.Addr(), i.write("password", registryPassword), i.certificateOf(server)))
	r := i.searched(`
skopeo --insecure-policy copy docker://images.example.com/acme/app:1 dir:/tmp/got >/dev/null && cat /tmp/got/manifest.json && echo FETCHED
skopeo --insecure-policy copy dir:image docker://images.example.com/acme/other:1 2>&1 && echo PUSHED
curl -s -X DELETE https://images.example.com/v2/acme/app/manifests/1`, func() []string { return []string{registryPassword} }, "--session", "images", "--project", "p")
	r.want(t, 0, "FETCHED", "403", "method_not_leased")
	hasNo(t, r.stdout+r.stderr, "PUSHED")
	hasNoSecret(t, filepath.Join(i.work, "home"), registryPassword)
	has(t, i.records("images"), `"reason":"method_not_leased"`)
}
