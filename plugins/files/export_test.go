package main

// Handler serves a folder.
var Handler = handler //nolint:gochecknoglobals // how tests reach it
