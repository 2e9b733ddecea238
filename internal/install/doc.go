// Package install brings plugins from a git repository or a folder into an
// installation, and keeps on record what their operator agreed to (D-28).
//
// It promises that nothing of a source is run while it is fetched and looked at: no hook, filter,
// submodule or configuration of a repository counts. What is installed is pinned to a commit and to
// the content of every file. A person has agreed to what it wants, again when an update wants more.
// Whoever ends it at any time leaves the old version or the new one.
//
// It starts no plugin and grants nothing by itself: what a plugin may reach is
// what its manifest wants and the operator confirmed here or in the config.
package install
