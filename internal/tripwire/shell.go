package tripwire

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/shell"
)

const (
	// maxCommand is the longest command, in bytes.
	maxCommand = 256 << 10
	// maxFetched is how many files of downloads are kept.
	maxFetched = 1024
	// maxPath is the longest name that a file can be reached by, in bytes.
	maxPath = 4096
	// Where relative paths begin, and what ~ stands for, in every sandbox.
	workDir = "/workspace"
	homeDir = "/home/agent"
)

// command is what can be read of a shell command without running it.
type command struct {
	// runs says that it gives a download to a shell to run.
	runs bool
	// writes are the paths of configuration that it writes, as far as they are literal.
	writes []string
	// unread says that it is too long or too deep to be read.
	unread bool
}

// readCommand reads a command of bash. One that no shell can parse runs nothing. What
// it saves of downloads it adds to fetched, the files that earlier ones saved.
func readCommand(text string, fetched map[string]bool) command {
	script, err := shell.ReadUpTo(text, maxCommand)
	if err != nil {
		return command{unread: errors.Is(err, shell.ErrLimit)}
	}
	c := command{runs: script.RunsFetched, unread: script.Unread}
	write := func(at string) {
		if sensitive(at) != "" {
			c.writes = append(c.writes, at)
		}
	}
	for _, to := range script.Writes {
		at := place(to.Dir, to.Text)
		write(at)
		if to.Fetched {
			save(fetched, at)
		}
	}
	for _, call := range script.Calls {
		written(call, write)
		c.runs = c.runs || runsOne(call, fetched)
		saves(call, fetched)
	}
	return c
}

// written gives the places that a call writes.
func written(call shell.Call, write func(at string)) {
	name := call.Name()
	_, changed := call.Changes()
	switch {
	case slices.Contains([]string{"mkdir", "rmdir", "chmod", "chown", "chgrp"}, name): // no file says something else after it
		return
	case slices.Contains([]string{"rm", "mv", "tar", "unzip", "wget"}, name): // they name a folder, for all that is in it
		for _, folder := range changed {
			write(place(call.Dir, folder.Text+"/."))
		}
	case shell.IsInterpreter(name), strings.HasSuffix(name, "awk"):
		program := strings.Join(call.Texts(), "\n") + "\n" + call.Stdin.Text
		shell.ProgramFiles(name, program, func(file string) { write(place(call.Dir, file)) })
	}
	for _, to := range changed {
		write(place(call.Dir, to.Text))
	}
}

// runsOne tells a call that runs a file which was downloaded: by its name, or as the
// script of a shell or an interpreter.
func runsOne(call shell.Call, fetched map[string]bool) bool {
	if command := call.Args[0].Text; strings.Contains(command, "/") && fetched[place(call.Dir, command)] {
		return true
	}
	name := call.Name()
	if !shell.IsShell(name) && !shell.IsInterpreter(name) && name != "." && name != "source" {
		return false
	}
	for _, arg := range call.Args[1:] {
		switch {
		case !strings.HasPrefix(arg.Text, "-"):
			return fetched[place(call.Dir, arg.Text)]
		case strings.ContainsAny(arg.Text, "ce") && !strings.HasPrefix(arg.Text, "--") && !shell.IsShell(name), strings.Contains(arg.Text, "c") && shell.IsShell(name):
			return false // the script is among the words
		}
	}
	return call.Stdin.File != "" && fetched[place(call.Dir, call.Stdin.File)]
}

// saves notes the files that a call makes of downloads, or moves them to.
func saves(call shell.Call, fetched map[string]bool) {
	name := call.Name()
	if name == "mv" || name == "cp" || name == "install" {
		from, _ := shell.Copied(call.Args[1:])
		for _, source := range from {
			if fetched[place(call.Dir, source.Text)] {
				saveAll(call, fetched)
				return
			}
		}
		return
	}
	prints := strings.HasPrefix(name, "wget") && !call.Saves() && !shell.HasFlag(call.Args[1:], "-O", "-qO")
	if call.Stdin.Fetched || shell.IsDownloader(name) && !prints {
		saveAll(call, fetched)
	}
	if call.Saves() {
		for _, arg := range call.Args[1:] {
			if address, _, _ := strings.Cut(arg.Text, "?"); strings.Contains(address, "/") {
				save(fetched, place(call.Dir, path.Base(address)))
			}
		}
	}
}

func saveAll(call shell.Call, fetched map[string]bool) {
	_, list := call.Changes()
	for _, to := range list {
		save(fetched, place(call.Dir, to.Text))
	}
}

func save(fetched map[string]bool, at string) {
	if at != "" && len(fetched) < maxFetched {
		fetched[at] = true
	}
}

// place is a path from the root on, "" where there is none that a file can have.
func place(dir, name string) string {
	if name == "" || len(dir)+len(name) > maxPath {
		return ""
	}
	return absolute(absolute(workDir, dir), name)
}

func absolute(dir, name string) string {
	switch {
	case name == "~" || strings.HasPrefix(name, "~/"):
		name = homeDir + name[1:]
	case !strings.HasPrefix(name, "/"):
		name = dir + "/" + name
	}
	into := strings.HasSuffix(name, "/.") || strings.HasSuffix(name, "/")
	name = path.Clean(name)
	if into {
		name += "/"
	}
	return name
}
