package workcmd

import (
	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
)

const loginHelp = `Without a name it says which logins there are. With one it runs the login of the
vendor's own program, in a folder that only nacre uses, and keeps what the program
gets. Your own login of that program is neither read nor changed.

The login stays on the host. Inside is a token that opens the model gateway of its
session and nothing else. It is used once login = "subscription" stands under [model]
in config.toml: the vendor's terms say which programs may use a subscription, and
whoever writes that line has read them. Where they forbid it, an API key works.`

// Login is nacre login (U-02).
func (c Commands) Login() *cobra.Command {
	var token bool
	l := &cobra.Command{
		Use: "login [claude|codex]", Short: "let the model gateway use your subscription", Long: loginHelp, Args: oneVendor,
		Example: "  nacre login claude\n  claude setup-token   # prints a token, which the next command reads\n  nacre login claude --token < token.txt\n  nacre login",
		RunE: func(cmd *cobra.Command, args []string) error {
			rt, err := c.Open(cmd.Context())
			if err != nil {
				return err
			}
			switch {
			case len(args) == 0:
				return c.logins(rt)
			case token:
				err = assembly.KeepToken(cmd.Context(), rt, args[0], c.Stdin)
			default:
				err = assembly.SignIn(cmd.Context(), rt, args[0], c.Stdin, c.Stdout, c.Stderr)
			}
			if err != nil {
				return err
			}
			return c.logins(rt)
		},
	}
	l.Flags().BoolVar(&token, "token", false, "read a long-lived token from standard input")
	return l
}

// oneVendor accepts a name, or none.
func oneVendor(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return command.Usage("name one login: claude or codex")
	}
	return nil
}

// logins prints which logins there are, and what is missing before they are used.
func (c Commands) logins(rt *assembly.Runtime) error {
	all := assembly.Logins(rt)
	if c.JSON {
		return c.PrintJSON(all)
	}
	p := c.Printer(c.Stdout)
	for _, l := range all {
		switch {
		case !l.Kept:
			p.Line("%s  no login: nacre login %s", l.Vendor, l.Vendor)
		case l.Wrong != "":
			p.Line("%s  %s", l.Vendor, l.Wrong)
		case !l.Used:
			p.Line("%s  login kept, not used: write login = \"subscription\" under [model] in config.toml once you have read the vendor's terms", l.Vendor)
		default:
			p.Line("%s  login kept, used by the model gateway", l.Vendor)
		}
	}
	return nil
}

// Logout is nacre logout (U-02).
func (c Commands) Logout() *cobra.Command {
	return &cobra.Command{
		Use: "logout claude|codex", Short: "forget a subscription login", Args: command.OneArgument("login: claude or codex"), Example: "  nacre logout claude",
		RunE: func(cmd *cobra.Command, args []string) error {
			rt, err := c.Open(cmd.Context())
			if err != nil {
				return err
			}
			if err := assembly.SignOut(cmd.Context(), rt, args[0]); err != nil {
				return err
			}
			c.Printer(c.Stdout).Line("the login of %s is gone from this machine; the vendor's account page revokes it", args[0])
			return nil
		},
	}
}
