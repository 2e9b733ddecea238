package mcp

// Compatible is what the tests of schemas look at.
var Compatible = compatible
