package manifest

import (
	"encoding/base64"
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"
)

// Pin is what one line of a go.sum pins.
type Pin struct {
	// Path and Version name a module, Sum is its digest, such as h1:….
	Path, Version, Sum string
	// Manifest says that the digest is that of the module's go.mod alone, of which
	// only the graph of modules is made.
	Manifest bool
}

var (
	pinPath    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._~/!+-]*$`) })
	pinVersion = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^v[0-9][A-Za-z0-9._+-]*$`) })
)

// ReadSum reads a go.sum. A digest of another kind than Go knows today pins nothing.
func ReadSum(data []byte) (pins []Pin, err error) {
	n, known := 0, map[Pin]bool{}
	for line := range strings.Lines(string(data)) {
		n++
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 3 {
			return nil, fmt.Errorf("line %d is no pin", n)
		}
		one := Pin{Path: fields[0], Sum: fields[2]}
		one.Version, one.Manifest = strings.CutSuffix(fields[1], "/go.mod")
		plain := path.Clean(one.Path) == one.Path && pinPath().MatchString(one.Path) && pinVersion().MatchString(one.Version)
		if !plain || strings.Contains(one.Path, "..") {
			return nil, fmt.Errorf("line %d names %q, which is no module", n, clip(fields[0]+" "+fields[1]))
		}
		digest, is := strings.CutPrefix(one.Sum, "h1:")
		sum, err := base64.StdEncoding.DecodeString(digest)
		if is && (err != nil || len(sum) != digestSize("sha256")) {
			return nil, fmt.Errorf("line %d has the digest %q, which is none", n, clip(one.Sum))
		}
		if is && !known[one] {
			pins, known[one] = append(pins, one), true
		}
	}
	return pins, nil
}

// Directives are the lines of a go.mod that are no requirement.
func Directives(data []byte) []string {
	var list []string
	block := ""
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, "//")
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
			continue
		case fields[0] == ")":
			block = ""
			continue
		case len(fields) == 2 && fields[1] == "(":
			block = fields[0]
			continue
		case block != "":
			fields = append([]string{block}, fields...)
		}
		switch fields[0] {
		case "require", "exclude", "go", "toolchain", "retract":
		default:
			list = append(list, strings.Join(fields, " "))
		}
	}
	return list
}
