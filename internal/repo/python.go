package repo

import (
	"path"
	"slices"
	"strings"
	"sync"
)

// reasonShadow is of what Python finds before its own library where it is started in
// the project: python3 -m json.tool runs the project's json.py.
const reasonShadow = "Python imports it in place of its own library, or of a tool"

// pythonModules are the library's modules that are read from files, and the tools
// that people start with python3 -m.
var pythonModules = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	for _, list := range []string{
		"abc antigravity argparse ast asyncio base64 bdb bisect bz2 calendar cgi cgitb cmd code codecs codeop collections colorsys compileall",
		"concurrent configparser contextlib contextvars copy copyreg csv ctypes curses dataclasses datetime dbm decimal difflib dis distutils doctest",
		"email encodings ensurepip enum filecmp fileinput fnmatch fractions ftplib functools genericpath getopt getpass gettext glob graphlib gzip",
		"hashlib heapq hmac html http idlelib imaplib imghdr imp importlib inspect io ipaddress json keyword lib2to3 linecache locale logging lzma",
		"mailbox mimetypes modulefinder multiprocessing netrc ntpath nturl2path numbers opcode operator optparse os pathlib pdb pickle pickletools pipes",
		"pkgutil platform plistlib poplib posixpath pprint profile cprofile pstats pty py_compile pyclbr pydoc pydoc_data queue quopri random re reprlib",
		"rlcompleter runpy sched secrets selectors shelve shlex shutil signal site smtplib sndhdr socket socketserver sqlite3 sre_compile sre_constants",
		"sre_parse ssl stat statistics string stringprep struct subprocess symtable sysconfig tabnanny tarfile telnetlib tempfile textwrap threading",
		"timeit tkinter token tokenize tomllib trace traceback tracemalloc tty turtle types typing unittest urllib uuid venv warnings wave weakref",
		"webbrowser wsgiref xdrlib xml xmlrpc zipapp zipfile zipimport zoneinfo",
		"pip setuptools wheel pkg_resources virtualenv pytest pluggy tox nox coverage black isort flake8 pylint mypy twine ipython jupyter notebook",
		"readline sqlite _bootlocale _collections_abc _sitebuiltins _weakrefset",
	} {
		for name := range strings.FieldsSeq(list) {
			names[name] = true
		}
	}
	return names
})

// pythonEnds are those of what Python imports: text, compiled text without it, and
// libraries, which may have more between name and end.
var pythonEnds = []string{".py", ".pyc", ".so", ".pyd"}

// shadowsPython reports whether a path is a module or a package at the top, whose
// name is one of Python's.
func shadowsPython(parts []string) bool {
	module, end := splitModule(parts[len(parts)-1])
	switch {
	case !slices.Contains(pythonEnds, end):
		return false
	case len(parts) == 1:
		return pythonModules()[module]
	case len(parts) == 2:
		return (module == "__init__" || module == "__main__") && pythonModules()[parts[0]]
	}
	return false
}

// splitModule gives what Python calls a file, and by which end.
func splitModule(base string) (module, end string) {
	end = path.Ext(base)
	module = strings.TrimSuffix(base, end)
	if end == ".so" || end == ".pyd" {
		module, _, _ = strings.Cut(module, ".")
	}
	return module, end
}
