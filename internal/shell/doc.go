// Package shell promises what can be known of a command of bash before it runs. That is the
// programs that it calls, however deep in wrappers, substitutions and scripts within scripts, the
// words that each is given, and what is written. It is pure and runs nothing. What cannot be known
// is said in Script.Odd, so that a gate can refuse it. A download that a shell is given to run is
// said in Script.RunsFetched, for a tripwire. It does not contain a program: what a script, a build
// or an interpreter does is held by the operating system's layer.
package shell
