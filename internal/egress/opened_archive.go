package egress

import (
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/leak"
	"github.com/nacre-dev/nacre/internal/unpack"
)

// archive searches what the compressed texts in an answer unpack to: the file
// itself may be one, without a word in its head. What it holds back bounds its memory.
type archive struct {
	secrets []string
	search  unpack.Search
	held    []byte
	// partial says that the answer is a part of a text: no text in it may end in the
	// middle of a secret, which begun says that one did.
	partial, begun bool
	// spare are scanners that have ended: a body may be nothing but small texts.
	spare []*leak.Scan
}

// inspect gives a scanner of one text.
func (a *archive) inspect() (look func([]byte) error, leave func()) {
	var scan *leak.Scan
	if n := len(a.spare); n > 0 {
		scan, a.spare = a.spare[n-1], a.spare[:n-1]
	} else {
		scan = leak.New(a.secrets)
	}
	scan.Reset()
	look = func(piece []byte) error {
		if _, leak := scan.Feed(piece); leak {
			return refusal(ReasonLeak, "the credential is in a compressed text")
		}
		return nil
	}
	return look, func() {
		a.begun = a.begun || scan.Begun()
		a.spare = append(a.spare, scan)
	}
}

// next sees a piece, or the last one, and says why it must not arrive.
func (a *archive) next(piece []byte, end bool) Reason {
	err := a.search.Next(piece)
	if err == nil && end {
		err = a.search.Finish()
	}
	halved := end && a.partial && a.begun
	switch {
	case err == nil && !halved:
		return ReasonDone
	case err == nil, reasonOf(err) == ReasonLeak:
		return ReasonLeak
	}
	return ReasonEncoded // it unpacks to more than can be searched
}

// hold keeps what a compressed text may still say, and gives the rest.
func (a *archive) hold(clear []byte, end bool) []byte {
	if len(a.held) == 0 && (end || !a.search.Unseen()) {
		return clear
	}
	a.held = append(a.held, clear...)
	ready := len(a.held)
	if !end && a.search.Unseen() {
		ready = max(0, ready-unpack.HeldBody)
	}
	clear = a.held[:ready:ready]
	a.held = slices.Clone(a.held[ready:])
	return clear
}

// archiveEnds are those of files that are compressed with gzip or as ZIP.
var archiveEnds = []string{
	".gz", ".tgz", ".taz", ".zip", ".zipx", ".whl", ".egg", ".jar", ".war", ".ear", ".aar", ".apk", ".aab", ".ipa", ".nupkg", ".vsix", ".xpi", ".crx",
	".docx", ".xlsx", ".pptx", ".odt", ".ods", ".odp", ".epub", ".crate", ".gem", ".svgz", ".npz", ".kmz", ".rds",
}

// archiveTypes are parts of the media types of such files.
var archiveTypes = []string{"zip", "java-archive", "package-archive", "openxmlformats", "opendocument", "x-tgz", "compressed"}

// isArchive reports whether an answer is said to be one, by its type or by a name.
func isArchive(resp *http.Response) bool {
	kind := lowerASCII(resp.Header.Get("Content-Type"))
	if slices.ContainsFunc(archiveTypes, func(part string) bool { return strings.Contains(kind, part) }) {
		return true
	}
	names := []string{resp.Request.URL.Path}
	if _, parameters, err := mime.ParseMediaType(resp.Header.Get("Content-Disposition")); err == nil {
		names = append(names, parameters["filename"])
	}
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(archiveEnds, lowerASCII(path.Ext(name))) })
}
