// Package manifest promises what the manifests and the lock files of package managers say, from
// their bytes alone. It tells what a lock file pins and from which servers, or why it cannot be
// held to, and whether two manifests differ in more than their dependencies. It fetches nothing and
// reads no file.
package manifest

import (
	"strings"
	"unicode"
)

const (
	// MaxPackages is how many packages one lock file may name.
	MaxPackages = 50_000
	// maxServers is how many servers one lock file may name.
	maxServers = 64
)

// clip shortens foreign text for a reason, without what moves a terminal's cursor.
func clip(text string) string {
	const most = 80
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}
