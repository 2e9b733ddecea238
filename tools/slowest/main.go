// Command slowest reads what `go test -json` wrote, FILE…, and prints the ten packages and the ten
// tests that took longest, and the tests that were skipped. So nobody has to guess where the time
// of CI goes or what it left out.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

const (
	shown  = 10
	module = "github.com/nacre-dev/nacre/"
)

// event is a line of test2json.
type event struct {
	Action, Package, Test string
	Elapsed               float64 // seconds
}

// took is how long one test or package ran.
type took struct {
	name    string
	seconds float64
}

// report is what the runs were, in seconds of wall time.
type report struct {
	packages, tests []took
	skipped         map[string]bool
}

func main() {
	r := report{skipped: map[string]bool{}}
	for _, path := range os.Args[1:] {
		if err := r.read(path); err != nil {
			fmt.Fprintln(os.Stderr, "slowest:", err)
			os.Exit(1)
		}
	}
	r.print(os.Stdout)
}

func (r *report) read(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) == nil { // other lines are the build's words
			r.note(e)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) note(e event) {
	name := strings.TrimPrefix(e.Package, module)
	switch {
	case e.Action == "skip" && e.Test != "":
		test, _, _ := strings.Cut(e.Test, "/")
		r.skipped[name+" "+test] = true
	case e.Action != "pass" && e.Action != "fail":
	case e.Test == "":
		r.packages = append(r.packages, took{name, e.Elapsed})
	case !strings.Contains(e.Test, "/"):
		r.tests = append(r.tests, took{name + " " + e.Test, e.Elapsed})
	}
}

func (r *report) print(w io.Writer) {
	printSlowest(w, "packages", r.packages)
	printSlowest(w, "tests", r.tests)
	names := slices.Sorted(maps.Keys(r.skipped))
	fmt.Fprintf(w, "== %d tests were skipped in one run or another, each of which says why\n", len(names))
	for _, name := range names {
		fmt.Fprintln(w, "  ", name)
	}
}

func printSlowest(w io.Writer, title string, list []took) {
	slices.SortFunc(list, func(a, b took) int { return cmp.Compare(b.seconds, a.seconds) })
	fmt.Fprintf(w, "== the slowest %s\n", title)
	for _, t := range list[:min(shown, len(list))] {
		fmt.Fprintf(w, "%8.1f s  %s\n", t.seconds, t.name)
	}
}
