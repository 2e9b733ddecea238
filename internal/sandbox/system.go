package sandbox

import (
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre"
)

// maxLocalTools is how many entries of /usr/local/bin are shown one by one.
const maxLocalTools = 200

// SystemMounts are this host's tool directories, read-only, so that nothing
// has to be installed in a sandbox. /usr/local/bin is shown entry by entry and
// can take more; everything else is bound as a whole. Of /etc only what
// programs need to find libraries, certificates and services.
func SystemMounts() []nacre.Mount {
	mounts := bindChildren("/usr", map[string]bool{"local": true})
	mounts = append(mounts, bindChildren("/usr/local", map[string]bool{"bin": true})...)
	mounts = append(mounts, localTools("/usr/local/bin")...)
	for _, name := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		mounts = append(mounts, bindOrLink(name)...)
	}
	for _, name := range []string{
		"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates.conf", "/etc/pki/tls", "/etc/pki/ca-trust",
		"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime",
		"/etc/services", "/etc/protocols", "/etc/mime.types", "/nix/store",
	} {
		mounts = append(mounts, nacre.Mount{Source: name, Target: name, Optional: true})
	}
	return mounts
}

// bindOrLink shows a path as the host has it: itself, or the link that it is.
func bindOrLink(name string) []nacre.Mount {
	info, err := os.Lstat(name)
	switch {
	case err != nil:
		return nil
	case info.Mode()&os.ModeSymlink != 0:
		text, err := os.Readlink(name)
		if err != nil {
			return nil
		}
		return []nacre.Mount{{Kind: nacre.SymlinkTo, Source: text, Target: name, Optional: true}}
	case info.IsDir(), info.Mode().IsRegular():
		return []nacre.Mount{{Source: name, Target: name, Optional: true}}
	}
	return nil
}

func bindChildren(dir string, except map[string]bool) []nacre.Mount {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var mounts []nacre.Mount
	for _, e := range entries {
		if !except[e.Name()] {
			mounts = append(mounts, bindOrLink(filepath.Join(dir, e.Name()))...)
		}
	}
	return mounts
}

// localTools shows programs one by one; where there are too many, the
// directory as a whole, to which nothing can be added then.
func localTools(dir string) []nacre.Mount {
	mounts := bindChildren(dir, nil)
	if len(mounts) > maxLocalTools {
		return []nacre.Mount{{Source: dir, Target: dir, Optional: true}}
	}
	return mounts
}
