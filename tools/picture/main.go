// Command picture draws what a terminal showed, as an SVG: the block of a Markdown page
// that begins with "demo", from stdin to stdout. Of a long block it draws the beginning
// and what stands from the last table on. The same page gives the same picture.
package main

import (
	"fmt"
	"html"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	fence = "```"
	// head is how many lines of the beginning are drawn.
	head    = 5
	omitted = "  …"
	table   = "WHAT THE AGENT TRIED"

	lineHeight, fontSize = 19, 13
	charWidth            = 7.83 // of a monospaced font of fontSize
	margin, titleBar     = 18, 30
)

func main() {
	page, err := io.ReadAll(os.Stdin)
	if err == nil {
		var lines []string
		if lines, err = shown(string(page)); err == nil {
			_, err = io.WriteString(os.Stdout, draw("nacre demo", lines))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

// shown are the lines of a page's block that the picture has.
func shown(page string) ([]string, error) {
	_, block, found := strings.Cut(page, fence+"\ndemo ")
	block, _, ended := strings.Cut(block, "\n"+fence)
	if !found || !ended {
		return nil, fmt.Errorf("the page has no block that begins with demo")
	}
	lines := strings.Split("demo "+block, "\n")
	from := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, table) })
	if from < head {
		return nil, fmt.Errorf("the block has no line %q after its beginning", table)
	}
	return slices.Concat(lines[:head], []string{omitted, ""}, lines[from:]), nil
}

// draw is a terminal of its own colours, which reads alike on light and dark pages.
func draw(title string, lines []string) string {
	columns := 0
	for _, line := range lines {
		columns = max(columns, utf8.RuneCountInString(line))
	}
	width, height := int(float64(columns)*charWidth)+2*margin, titleBar+len(lines)*lineHeight+margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="t">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, "<title id=\"t\">%s: what an attacked agent tried, and what stopped it</title>\n", html.EscapeString(title))
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="8" fill="#16181d"/>`+"\n", width, height)
	for i, colour := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&b, `<circle cx="%d" cy="16" r="5" fill="%s"/>`+"\n", margin+i*18, colour)
	}
	fmt.Fprintf(&b, `<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="%d" xml:space="preserve">`+"\n", fontSize)
	for i, line := range lines {
		if line == "" {
			continue
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s" textLength="%.0f" lengthAdjust="spacingAndGlyphs" style="white-space:pre">%s</text>`+"\n",
			margin, titleBar+(i+1)*lineHeight-5, colour(line), float64(utf8.RuneCountInString(line))*charWidth, html.EscapeString(line))
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String()
}

// colour is what nacre's own terminal gives a line of its kind.
func colour(line string) string {
	const plain, dim, good, bold = "#d7dae0", "#8b919d", "#7ec699", "#ffffff"
	switch {
	case strings.HasPrefix(line, table):
		return bold
	case strings.Contains(line, "  stopped  "), strings.HasPrefix(line, "merged "):
		return good
	case strings.HasPrefix(line, " "), line == omitted:
		return dim
	}
	return plain
}
