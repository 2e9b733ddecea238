package mcp

// Compatible and Closed are what the tests of schemas look at.
var (
	Compatible = compatible
	Closed     = closed
)
