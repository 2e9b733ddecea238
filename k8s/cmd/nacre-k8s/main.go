// Command nacre-k8s starts nacre's sandboxes in pods of a Kubernetes cluster. Only nacre
// starts it: docs/kubernetes.md says how it is installed and set up.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/nacre-dev/nacre/internal/sandbox/inside"
	"github.com/nacre-dev/nacre/k8s/internal/relay"
)

// maxSettings is the longest text of settings that is read, in bytes.
const maxSettings = 64 << 10

func main() { os.Exit(run(os.Args)) }

func run(args []string) int {
	mode := ""
	if len(args) == 2 {
		mode = args[1]
	}
	var err error
	switch mode {
	case inside.PodDescribe:
		err = describe()
	case inside.PodStart:
		err = start()
	default:
		err = errors.New("nacre starts this program, where config.toml says [sandbox] backend = \"k8s\" (docs/kubernetes.md)")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func describe() error {
	text, err := io.ReadAll(io.LimitReader(os.Stdin, maxSettings))
	if err != nil {
		return err
	}
	var settings inside.PodSettings
	if err := json.Unmarshal(text, &settings); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	d, err := relay.Describe(context.Background(), settings)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(d)
}

func start() error {
	file := os.NewFile(inside.ControlFD, "control")
	control, err := net.FileConn(file)
	if err != nil {
		return fmt.Errorf("only nacre starts this: %w", err)
	}
	_ = file.Close() // the connection has its own copy
	return relay.Run(context.Background(), control, relay.Streams{
		In: os.NewFile(inside.PodStdinFD, "stdin"), Out: os.NewFile(inside.PodStdoutFD, "stdout"), Err: os.NewFile(inside.PodStderrFD, "stderr"),
	})
}
