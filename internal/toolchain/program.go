package toolchain

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/posture"
)

// Program shows a program of the caller's PATH that neither the system folders nor the toolchains
// bring along, such as one in ~/.local/bin. It gives the command to run in place of name, and
// read-only mounts of what the program consists of. Of a package of npm that is its node_modules,
// of a virtual environment of Python all of it, else the one file. Where name has a slash, is there
// already, or is nowhere, the name comes back alone.
func Program(m *Memo, toolchains []posture.Toolchain, name string) (command string, mounts []nacre.Mount) {
	if strings.Contains(name, "/") || m.inside(toolchains, name) {
		return name, nil
	}
	found, err := exec.LookPath(name) // nothing of a relative folder, which a project could fill
	if err != nil {
		return name, nil
	}
	file, err := filepath.EvalSymlinks(found)
	if err != nil || !filepath.IsAbs(file) || m.inSystem(file) {
		return name, nil
	}
	if whole := m.packageOf(file); whole != "" {
		return file, []nacre.Mount{{Source: whole, Target: whole}}
	}
	inside := posture.BinDir + "/" + name
	return inside, []nacre.Mount{{Source: file, Target: inside}}
}

// inside tells whether a session finds a program by itself.
func (m *Memo) inside(toolchains []posture.Toolchain, name string) bool {
	dirs := []string{"/usr/bin", "/bin", "/usr/sbin", "/sbin"}
	for _, t := range toolchains {
		dirs = append(dirs, t.Path...)
	}
	return slices.ContainsFunc(dirs, func(dir string) bool {
		_, err := exec.LookPath(filepath.Join(dir, name))
		return err == nil
	})
}

// packageOf is the folder that a program needs beside itself; empty where it is one file.
// A folder in which other things of a home lie is none.
func (m *Memo) packageOf(file string) string {
	const modules = "/node_modules/"
	if at := strings.Index(file, modules); at >= 0 {
		if whole := file[:at+len(modules)-1]; m.alone(whole) {
			return whole
		}
	}
	environment := filepath.Dir(filepath.Dir(file))
	if _, err := filepath.EvalSymlinks(filepath.Join(environment, "pyvenv.cfg")); err == nil && m.alone(environment) {
		return environment
	}
	return ""
}
