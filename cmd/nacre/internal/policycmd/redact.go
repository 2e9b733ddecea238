package policycmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/redact"
)

type redactCommand Commands

// maxDocument is the longest JSON document that is read, in bytes.
const maxDocument = 64 << 20

func (cmd redactCommand) command() *cobra.Command {
	var verbose bool
	c := &cobra.Command{
		Use: "redact [FILE]", Short: "take the secrets out of a stream",
		Long: `Copies standard input, or a file, to standard output with secrets replaced, and with
them personal data: e-mail addresses, telephone, account, card and social security
numbers. What it knows no form or name of stays. It takes bounded memory and writes as
the input comes. With --json the input is JSON documents, such
as one to a line: values and keys are redacted, and each document stays JSON.
-v tells on standard error how many there were, and in JSON under which names.`,
		Example: "  npm test 2>&1 | nacre redact\n  nacre redact --json -v events.jsonl",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.Usage("%s takes one file; see %s --help", c.CommandPath(), c.CommandPath())
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) (err error) {
			in := cmd.Stdin
			if len(args) == 1 && args[0] != "-" {
				if in, err = os.Open(args[0]); err != nil {
					return err
				}
				defer func() { _ = in.Close() }() // it was only read
			}
			count := cmd.redactText
			if cmd.JSON {
				count = cmd.redactJSON
			}
			found, err := count(in, verbose)
			if verbose && err == nil {
				_, err = fmt.Fprintf(cmd.Stderr, "%d redacted\n", found)
			}
			return err
		},
	}
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "tell how many secrets there were")
	return c
}

func (cmd redactCommand) redactText(in io.Reader, _ bool) (int, error) {
	w := redact.New().Writer(cmd.Stdout)
	_, err := io.Copy(w, in)
	err = errors.Join(err, w.Close())
	return w.Found(), err
}

// redactJSON stops at the first thing that is no JSON; nothing of it is shown.
func (cmd redactCommand) redactJSON(in io.Reader, verbose bool) (int, error) {
	engine, found := redact.New(), 0
	counted := &counter{from: in}
	for decoder := json.NewDecoder(counted); ; {
		var document json.RawMessage
		counted.limit = decoder.InputOffset() + maxDocument
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return found, nil
		case err != nil:
			return found, fmt.Errorf("JSON after byte %d: %w", decoder.InputOffset(), err)
		}
		clean, paths, err := engine.JSON(document)
		if err != nil {
			return found, err
		}
		found += len(paths)
		if err := cmd.writeDocument(clean, paths, verbose); err != nil {
			return found, err
		}
	}
}

func (cmd redactCommand) writeDocument(clean []byte, paths []string, verbose bool) error {
	if _, err := fmt.Fprintf(cmd.Stdout, "%s\n", clean); err != nil {
		return err
	}
	for _, path := range paths {
		if !verbose {
			break
		}
		if _, err := fmt.Fprintf(cmd.Stderr, "%q\n", path); err != nil {
			return err
		}
	}
	return nil
}

// counter reads up to a limit, which moves.
type counter struct {
	from        io.Reader
	read, limit int64
}

var errDocument = fmt.Errorf("a document of more than %d MiB", maxDocument>>20)

func (c *counter) Read(p []byte) (int, error) {
	if c.read >= c.limit {
		return 0, errDocument
	}
	n, err := c.from.Read(p[:min(int64(len(p)), c.limit-c.read)])
	c.read += int64(n)
	return n, err
}
