package main

import "github.com/nacre-dev/nacre"

// What the tests see besides the tool.
var NewHandler = handler

// Cleaned is [cleaned] where the token is "the-token".
func Cleaned(text string) string { return cleaned(text, nacre.NewSecret("the-token")) }
