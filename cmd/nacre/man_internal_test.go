package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
)

// M-62, U-30: every command has a man page. NACRE_MAN is a folder that keeps them, for
// a release; NACRE_MAN_VERSION and NACRE_MAN_DATE are what they say of it.
func TestEveryCommandHasAManPage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if kept := os.Getenv("NACRE_MAN"); kept != "" {
		dir = kept
	}
	date := time.Unix(0, 0).UTC()
	if text := os.Getenv("NACRE_MAN_DATE"); text != "" {
		var err error
		if date, err = time.Parse(time.RFC3339, text); err != nil {
			t.Fatal(err)
		}
	}
	root := nacre{&command.Env{}}.command([]string{"help"})
	root.DisableAutoGenTag = true
	header := &doc.GenManHeader{Title: "NACRE", Section: "1", Source: "nacre " + os.Getenv("NACRE_MAN_VERSION"), Manual: "nacre", Date: &date}
	if err := doc.GenManTree(root, header, dir); err != nil {
		t.Fatal(err)
	}
	pages := 0
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
		if err != nil || !strings.Contains(string(page), ".SH SYNOPSIS") {
			t.Errorf("%s: %v", c.CommandPath(), err)
		}
		pages++
		if c.Runnable() && !c.HasSubCommands() && c.Example == "" { // docs/commands.md promises it
			t.Errorf("%s shows no example", c.CommandPath())
		}
		for line := range strings.Lines(c.Long) {
			if utf8.RuneCountInString(line) > 81 && line[0] != ' ' {
				t.Errorf("%s: its help has a line that a terminal breaks: %s", c.CommandPath(), line)
			}
		}
		if first, _ := utf8.DecodeRuneInString(c.Long); !unicode.IsUpper(first) && c.Name() != "nacre" {
			t.Errorf("%s: its help begins with no sentence: %s", c.CommandPath(), c.Long)
		}
		for _, below := range c.Commands() {
			if below.IsAvailableCommand() && !below.IsAdditionalHelpTopicCommand() {
				look(below)
			}
		}
	}
	look(root)
	if pages < 60 {
		t.Errorf("%d pages", pages)
	}
}
