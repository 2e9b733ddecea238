// Package plugin is what the author of a plugin needs. It has the manifest that declares a plugin,
// the protocol that its handler speaks, and [Serve], which speaks it for handlers written in Go.
//
// A plugin is a folder with a manifest.json, a handler and, if it wants its
// own words for the agent, skill/*.md. The handler is a process of its own, in
// any language: JSON-RPC 2.0 on stdin and stdout, one object a line, in both
// directions (D-20, D-21). Handlers get arguments that already fit their
// schema, for a group that may use the tool, and once a person has agreed where that
// was needed.
//
// The package promises that a manifest with anything unknown, twice or of the
// wrong type is refused, and that an error which is not a [ToolError] tells
// the agent nothing. It does not start processes and decides nothing about
// who may call what; that is the host's.
package plugin
