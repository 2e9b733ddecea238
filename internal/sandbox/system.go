package sandbox

import (
	"os"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
)

// SystemMounts are this host's tool directories, read-only, so that nothing
// has to be installed in a sandbox. /usr is one mount: each costs a start as much
// as fifty files, and nacre's own programs have a folder of their own (P-01). Of
// /etc only what programs need to find libraries, certificates and services.
func SystemMounts() []nacre.Mount {
	mounts := bindOrLink("/usr")
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
	return append(mounts, toolSettings()...)
}

// toolSettings are folders of /etc that links of installed tools lead to, and without which those
// cannot start. They are java's, of each version, and others' of which none has anything to hide.
// Maven's own settings may have passwords, and stay out.
func toolSettings() []nacre.Mount {
	entries, err := os.ReadDir("/etc")
	if err != nil {
		return nil
	}
	names := []string{"/etc/maven/m2.conf", "/etc/maven/logging", "/etc/ssl/java"}
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasPrefix(name, "java"), strings.HasPrefix(name, "python3"), slices.Contains([]string{
			"ghc", "perl", "R", "texmf", "fonts", "ant", "scala", "groovy", "gradle", "emacs", "mono", "dotnet", "sgml", "xml",
		}, name):
			names = append(names, "/etc/"+name)
		}
	}
	var mounts []nacre.Mount
	for _, name := range names {
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
