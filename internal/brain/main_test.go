package brain_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/brain/agent"
)

// actAs makes the test binary the program that runs inside the sandbox.
const actAs = "BRAIN_TEST_ACT"

func TestMain(m *testing.M) {
	if os.Getenv(actAs) != "" {
		os.Exit(agent.Main(agent.World{
			Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Gates: brain.GatesFile,
		}))
	}
	goleak.VerifyTestMain(m)
}
