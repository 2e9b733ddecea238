package installation

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/config"
)

// bundleFile is beside the sockets, where a sandbox sees it.
const bundleFile = "ca.pem"

// trustVariables name the file of authorities that a client trusts.
func trustVariables() []string {
	return []string{
		"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO",
		"PIP_CERT", "AWS_CA_BUNDLE", "DENO_CERT", "npm_config_cafile",
	}
}

// systemBundles are where distributions keep the authorities they trust.
func systemBundles() []string {
	return []string{
		"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/pki/tls/cacert.pem",
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
	}
}

// HasAuthorities tells whether the operator trusts others than the system does.
func HasAuthorities(inst *Installation) bool {
	return len(inst.Config.Egress.CA) > 0 || inst.Options.Getenv("SSL_CERT_FILE") != ""
}

// Trusted are the variables that have tools inside trust whom the operator trusts; none
// where that is whom the system trusts. [GiveAuthorities] writes the file that they name.
func Trusted(inst *Installation) []string {
	if !HasAuthorities(inst) {
		return nil
	}
	return TrustVariables()
}

// GiveAuthorities writes the authorities that the operator trusts into a folder that a sandbox sees
// as nacre.SocketDir, where they are others than the system's. Those of more, in PEM, come after
// them.
func GiveAuthorities(inst *Installation, dir string, more []byte) error {
	if len(more) == 0 && !HasAuthorities(inst) {
		return nil
	}
	list, err := bundle(inst)
	if err != nil {
		return &NotReady{What: "the list of authorities", Err: err}
	}
	own, err := inst.Config.Egress.Authorities()
	if err != nil {
		return &config.Error{Err: err}
	}
	return os.WriteFile(filepath.Join(dir, bundleFile), slices.Concat(list, []byte("\n"), own, more), 0o444)
}

// bundle is the list of authorities that this machine trusts; empty where there is none.
func bundle(inst *Installation) ([]byte, error) {
	if own, err := config.EnvironmentAuthorities(inst.Options.Getenv); err != nil || own != nil {
		return own, err
	}
	for _, name := range systemBundles() {
		if list, err := config.ReadFile(name); !errors.Is(err, os.ErrNotExist) {
			return list, err
		}
	}
	return nil, nil
}

// TrustVariables name the file that [GiveAuthorities] writes.
func TrustVariables() []string {
	var env []string
	for _, name := range trustVariables() {
		env = append(env, name+"="+nacre.SocketDir+"/"+bundleFile)
	}
	return env
}
