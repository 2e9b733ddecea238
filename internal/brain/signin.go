package brain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/nacre-dev/nacre/internal/disk"
)

// maxSignIn is the largest file in which a program keeps its login, in bytes.
const maxSignIn = 1 << 20

// Streams are a person's terminal.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// SignIn runs the login of the agent's own program on the host, in home, an empty folder that only
// nacre uses. It returns the file in which the program keeps the login. The person's own login is
// neither read nor changed (U-02).
func SignIn(ctx context.Context, name string, o Options, home string, s Streams) ([]byte, error) {
	var program, variable, file string
	var words []string
	var err error
	switch name {
	case claudeName:
		program, err = NewClaude(o).program()
		variable, file, words = "CLAUDE_CONFIG_DIR", ".credentials.json", []string{"auth", "login"}
	case codexName:
		program, err = NewCodex(o).program()
		variable, file, words = "CODEX_HOME", "auth.json", []string{"login", "-c", `cli_auth_credentials_store="file"`}
	default:
		err = errors.New("no login is known for this agent")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	cmd := exec.CommandContext(ctx, program, words...)
	cmd.Dir, cmd.Env = home, append(os.Environ(), variable+"="+home)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.In, s.Out, s.Err
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("the login of %s did not end well: %w", name, err)
	}
	data, err := disk.Read(filepath.Join(home, file), maxSignIn)
	if err != nil {
		return nil, fmt.Errorf("%s kept no login in a file: %w", name, err)
	}
	return data, nil
}
