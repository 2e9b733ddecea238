package sessioncmd

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
)

func (c credentialCommand) login() *cobra.Command {
	var r assembly.SignInRequest
	var device bool
	login := &cobra.Command{
		Use: "login NAME", Short: "sign in at an MCP server, in a browser", Args: command.OneArgument("a name for the sign-in"),
		Long: `Asks the server where its tokens come from, shows the page to sign in at, and waits for
the browser to come back to this machine: over SSH, forward the port that the page's
redirect_uri names (ssh -L), or sign in with --device: it shows a code that you type at a
page, in any browser on any machine. What the server gives is kept in a file of your own, mode
0600, in the config folder; value_oauth in config.toml names it. It is for that server
alone, and is refreshed before it ends.`,
		Example: "  nacre credentials login notes --url https://mcp.notes.example/mcp\n  nacre credentials login notes --url https://mcp.notes.example/mcp --scope read",
		RunE: func(cmd *cobra.Command, args []string) error {
			rt, err := c.Open(cmd.Context())
			if err != nil {
				return err
			}
			r.Open = func(page string) { c.Printer(c.Stderr).Line("sign in here: %s", page) }
			if device {
				r.Show = func(page, code string) { c.Printer(c.Stderr).Line("type the code %s here: %s", code, page) }
			}
			done, err := assembly.SignInAtServer(cmd.Context(), rt, args[0], r)
			if err != nil {
				return err
			}
			if c.JSON {
				return c.PrintJSON(done)
			}
			p := c.Printer(c.Stdout)
			p.Field(done.Name, "signed in at %s", done.Host)
			switch {
			case done.Refreshed:
				p.Field("until", "you sign out, or the server ends it: it is refreshed")
			case !done.Expires.IsZero():
				p.Field("until", "%s: the server gave nothing to refresh it with", done.Expires.Local().Format("2006-01-02 15:04"))
			}
			if len(done.Scopes) > 0 {
				p.Field("scopes", "%s", strings.Join(done.Scopes, " "))
			}
			p.Field("config", "value_oauth = %q says where it is: docs/credentials.md", done.File)
			return nil
		},
	}
	f := login.Flags()
	f.StringVar(&r.Server, "url", "", "the URL of the MCP server")
	f.BoolVar(&device, "device", false, "sign in with a code, on any device (RFC 8628), where the server can")
	f.StringVar(&r.ClientID, "client-id", "", "the name that the authorization server knows nacre by (default: nacre registers itself)")
	f.StringArrayVar(&r.Scopes, "scope", nil, "a scope to ask for, and no more than those (default: what the server names); may be repeated")
	return login
}

func (c credentialCommand) logout() *cobra.Command {
	return &cobra.Command{
		Use: "logout NAME", Short: "revoke a sign-in, and take its file away", Args: command.OneArgument("the name of a sign-in"), Example: "  nacre credentials logout notes",
		RunE: func(cmd *cobra.Command, args []string) error {
			rt, err := c.Open(cmd.Context())
			if err != nil {
				return err
			}
			done, err := assembly.SignOutOfServer(cmd.Context(), rt, args[0])
			if err != nil {
				return err
			}
			if c.JSON {
				return c.PrintJSON(done)
			}
			p := c.Printer(c.Stdout)
			if done.Left != "" {
				p.Field(done.Name, "its file is gone; %s", done.Left)
				return command.Exit(command.ExitNotReady)
			}
			p.Field(done.Name, "revoked, and its file is gone")
			return nil
		},
	}
}
