package shell

import "strings"

// The programs that both a gate and a tripwire have to know.
const (
	shells = " sh bash dash zsh ksh ksh93 mksh lksh pdksh oksh ash hush fish rbash rzsh posh yash csh tcsh pwsh powershell nu elvish xonsh osh ysh rc es ion "
	// interpreters run what they read where they are given nothing else.
	interpreters = " python pypy perl ruby node nodejs bun deno tsx ts-node php lua luajit tclsh expect osascript Rscript julia elixir groovy swift irb ghci raku racket guile "
	downloaders  = " curl wget wget2 wcurl curlie aria2c axel http https xh fetch lynx w3m links elinks GET lwp-request" +
		" nc ncat netcat socat ftp tftp telnet sftp lftp httpie dig drill host nslookup "
)

// longestName is longer than every name of a table, in bytes.
const longestName = 24

// in tells a name of a table. A longer one than any of them is not copied.
func in(table, name string) bool {
	return name != "" && len(name) < longestName && !strings.Contains(name, " ") && strings.Contains(table, " "+name+" ")
}

// IsShell tells a shell by its name, also where it leads a login (-bash).
func IsShell(name string) bool { return in(shells, strings.ToLower(strings.TrimPrefix(name, "-"))) }

// IsInterpreter tells a program that runs what it reads where it is given
// nothing else, in any of its versions.
func IsInterpreter(name string) bool {
	return in(interpreters, strings.TrimRight(name, "0123456789.-")) || strings.HasPrefix(name, "python") || strings.HasPrefix(name, "pypy")
}

// IsDownloader tells a program that brings something from the network.
func IsDownloader(name string) bool { return in(downloaders, name) }
