package sessioncmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
)

// webProgram serves the page. It is a program of its own: what templates need would
// make every start of nacre slower.
const webProgram = "nacre-web"

// Web is nacre web.
func (c Commands) Web() *cobra.Command {
	return &cobra.Command{
		Use: "web", Short: "show what waits for you on a web page of this machine", Args: command.NoArguments,
		Long: `Serves a page on this machine only, and prints a link that signs you in once, within ten
minutes. The page shows each waiting question whole, approves or denies it as nacre
approvals does, and shows and stops sessions. It ends with Ctrl-C.`,
		Example: "  nacre web",
		RunE:    func(*cobra.Command, []string) error { return startWeb() },
	}
}

// startWeb becomes the program of the page, which lies beside nacre.
func startWeb() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	program := filepath.Join(filepath.Dir(self), webProgram)
	err = syscall.Exec(program, []string{webProgram}, os.Environ()) // which returns only where it failed
	if errors.Is(err, fs.ErrNotExist) {
		return command.ExitWith(command.ExitNotReady, fmt.Errorf("%s is not there: install it beside nacre (docs/install.md)", program))
	}
	return fmt.Errorf("start %s: %w", program, err)
}
