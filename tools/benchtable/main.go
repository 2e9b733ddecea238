// Command benchtable reads the output of `go test -bench` and prints one table
// a package, each result beside the floor that was measured in the same run.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "benchtable:", err)
		os.Exit(1)
	}
}

// result is one line of `go test -bench`.
type result struct {
	name    string
	perOp   float64 // nanoseconds
	metrics []string
}

func run(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	var pkg string
	var results []result
	failed := false
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "pkg: "):
			pkg = strings.TrimPrefix(line, "pkg: ")
		case strings.HasPrefix(line, "cpu: "):
			if _, err := fmt.Fprintf(out, "%s\n", line); err != nil {
				return err
			}
		case strings.HasPrefix(line, "Benchmark"):
			if r, ok := parse(line); ok {
				results = append(results, r)
			}
		case strings.HasPrefix(line, "ok ") || strings.HasPrefix(line, "PASS"):
			if err := table(out, pkg, results); err != nil {
				return err
			}
			results = nil
		case strings.HasPrefix(line, "FAIL") || strings.HasPrefix(line, "---"):
			failed = true
			if _, err := fmt.Fprintln(out, line); err != nil {
				return err
			}
		}
	}
	if failed {
		return fmt.Errorf("a benchmark failed")
	}
	return lines.Err()
}

// parse reads "BenchmarkX/ours-2  1000  1234 ns/op  56 B/op  7 allocs/op".
func parse(line string) (result, bool) {
	fields := strings.Fields(line)
	if len(fields) < 4 {
		return result{}, false
	}
	name := strings.TrimPrefix(fields[0], "Benchmark")
	if dash := strings.LastIndex(name, "-"); dash > 0 {
		if _, err := strconv.Atoi(name[dash+1:]); err == nil {
			name = name[:dash]
		}
	}
	r := result{name: name}
	for i := 2; i+1 < len(fields); i += 2 {
		if fields[i+1] == "ns/op" {
			r.perOp, _ = strconv.ParseFloat(fields[i], 64) // a zero is shown as such
			continue
		}
		r.metrics = append(r.metrics, fields[i]+" "+fields[i+1])
	}
	return r, true
}

// table prints a package's results; a sibling called "floor" is what the
// others are measured against.
func table(out io.Writer, pkg string, results []result) error {
	if len(results) == 0 {
		return nil
	}
	floors := map[string]float64{}
	for _, r := range results {
		if parent, leaf := split(r.name); leaf == "floor" {
			floors[parent] = r.perOp
		}
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	if _, err := fmt.Fprintf(w, "\n%s\n\ttime/op\t× floor\t\n", pkg); err != nil {
		return err
	}
	for _, r := range results {
		if _, err := fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.name, duration(r.perOp), ratio(r, floors), strings.Join(r.metrics, "  ")); err != nil {
			return err
		}
	}
	return w.Flush()
}

func split(name string) (parent, leaf string) {
	cut := strings.LastIndex(name, "/")
	if cut < 0 {
		return "", name
	}
	return name[:cut], name[cut+1:]
}

func ratio(r result, floors map[string]float64) string {
	parent, leaf := split(r.name)
	for leaf != "floor" {
		if floor, ok := floors[parent]; ok && floor > 0 {
			return fmt.Sprintf("%.1f x", r.perOp/floor)
		}
		if parent == "" {
			break
		}
		parent, _ = split(parent)
	}
	return ""
}

func duration(ns float64) string {
	switch {
	case ns >= 1e9:
		return fmt.Sprintf("%.2f s", ns/1e9)
	case ns >= 1e6:
		return fmt.Sprintf("%.2f ms", ns/1e6)
	case ns >= 1e3:
		return fmt.Sprintf("%.2f µs", ns/1e3)
	default:
		return fmt.Sprintf("%.0f ns", ns)
	}
}
