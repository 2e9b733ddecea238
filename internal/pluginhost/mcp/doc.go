// Package mcp lets an MCP server be a plugin's handler (D-21), and makes
// manifests of servers.
//
// It promises that a plugin's manifest is the contract. A server that lacks one of its tools, or
// that would not take what the manifest's schema allows, is refused by the tool's name. What a
// server says of its tools never reaches an agent, and what it offers beyond the manifest is not
// called. A server that asks for sampling, elicitation or roots is refused. Its results are JSON
// and its errors are cut to a limit.
//
// It does not start servers, seal them or open connections: streams and
// transports are the caller's.
package mcp
