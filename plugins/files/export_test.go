package main

// Handler serves a folder.
var Handler = handler
