package sessioncmd

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
)

// credentialCommand makes nacre credentials. A person keeps the values that sessions lease in a
// store of this machine, looks at what they are for and how old they are, tries, replaces and
// removes them. No value is ever shown.
type credentialCommand Commands

// Credentials is nacre credentials, with the commands below it.
func (c Commands) Credentials() *cobra.Command { return credentialCommand(c).command() }

func (c credentialCommand) command() *cobra.Command {
	return command.Group("credentials", "what sessions may use of your secrets, and where those are", c.list(), c.add(), c.test(), c.rotate(), c.remove(), c.login(), c.logout(), c.leases(), c.sweep())
}

func (c credentialCommand) list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "credentials, their stores, what they are for and how old they are", Args: command.NoArguments, Example: "  nacre credentials list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			rt, err := c.Open(cmd.Context())
			if err != nil {
				return err
			}
			all := assembly.Credentials(cmd.Context(), rt)
			if c.JSON {
				return c.PrintJSON(all)
			}
			c.print(all)
			return nil
		},
	}
}

func (c credentialCommand) print(all []assembly.Credential) {
	p := c.Printer(c.Stdout)
	if len(all) == 0 {
		p.Line("no credentials: nacre credentials add keeps one")
		return
	}
	var rows [][]string
	for _, k := range all {
		scope := "inside the sandbox"
		if !k.Inside {
			scope = k.Host + " " + strings.Join(k.Methods, ",") + " " + strings.Join(k.Paths, ",")
		}
		if k.Minted != "" {
			scope += " · " + k.Minted
		}
		rows = append(rows, []string{k.Name, k.Store, scope, strings.Join(k.Groups, ","), age(k)})
	}
	p.Table([]string{"NAME", "STORE", "FOR", "GROUPS", "AGE"}, rows)
}

// age is how long ago the value was put where it is.
func age(k assembly.Credential) string {
	if k.Since.IsZero() {
		return "-"
	}
	switch past := time.Since(k.Since); {
	case past >= 48*time.Hour:
		return fmt.Sprintf("%d days", past/(24*time.Hour))
	case past >= 2*time.Hour:
		return fmt.Sprintf("%d hours", past/time.Hour)
	default:
		return fmt.Sprintf("%d min", past/time.Minute)
	}
}

const addHelp = `Asks for the value without showing what is typed; where standard input is not a
terminal the value is its first line. The value is kept in the store that --store
names, and config.toml is told where it is:

  keyring   the key store of your desktop, by D-Bus Secret Service; it must be unlocked
  age       a file that age encrypts for the identity file of --identity, which is made
            where there is none; for machines without a desktop
  file      a file of your own, mode 0600, in the config folder

Nothing is kept in another store where one does not answer. A value in a variable, from
a program (pass, op, bw, vault) or from systemd is named in config.toml by hand:
docs/credentials.md. --standing-secret says that you know that the value is good until
its issuer takes it back.`

func (c credentialCommand) add() *cobra.Command {
	var a assembly.CredentialAddition
	add := &cobra.Command{
		Use: "add NAME", Short: "keep a value, and say what it may be used for", Long: addHelp, Args: command.OneArgument("the name of a credential"),
		Example: "  nacre credentials add hub --store keyring --host api.hub.example --path /repos/acme/ --standing-secret\n" +
			"  pass show hub | nacre credentials add hub --store age --host api.hub.example --path / --standing-secret",
		RunE: func(cmd *cobra.Command, args []string) error {
			rt, err := c.Open(cmd.Context())
			if err != nil {
				return err
			}
			a.Name = args[0]
			done, err := assembly.AddCredential(cmd.Context(), rt, a, c.ask(a.Name))
			if err != nil {
				return err
			}
			return c.added(done)
		},
	}
	f := add.Flags()
	f.StringVar(&a.Store, "store", "", "where the value is kept: keyring, age or file")
	f.StringVar(&a.Identity, "identity", "", "the identity file of --store age (default identity.txt beside the values)")
	f.StringVar(&a.Host, "host", "", "the HOST or HOST:PORT that the value is sent to")
	f.StringArrayVar(&a.Paths, "path", nil, "a path that it may be used for, such as /repos/acme/; may be repeated")
	f.StringArrayVar(&a.Methods, "method", nil, "a method that it may be used for (default GET and HEAD); may be repeated")
	f.StringArrayVar(&a.Groups, "group", []string{string(assembly.DefaultGroup)}, "a group whose sessions hold it; may be repeated")
	f.StringVar(&a.Scheme, "scheme", "", "bearer, basic or raw (default bearer)")
	f.StringVar(&a.Header, "header", "", "the header that it is sent in (default Authorization)")
	f.StringVar(&a.PlaceholderEnv, "placeholder-env", "", "a variable that stands inside for the value, for programs that want one before they ask anything")
	f.StringVar(&a.User, "user", "", "the user of --scheme basic")
	f.BoolVar(&a.StandingSecret, "standing-secret", false, "accept a long-lived secret, which is good until its issuer takes it back")
	return add
}

// ask reads a value once it is needed.
func (c credentialCommand) ask(name string) func() (nacre.Secret, error) {
	return func() (nacre.Secret, error) {
		return c.Secret("credential "+name, bufio.NewReaderSize(io.LimitReader(c.Stdin, command.MaxSecretLine), command.MaxSecretLine))
	}
}

func (c credentialCommand) added(done assembly.CredentialChange) error {
	if c.JSON {
		return c.PrintJSON(done)
	}
	p := c.Printer(c.Stdout)
	p.Field(done.Name, "kept in %s", done.From)
	if done.Made != "" {
		p.Field("identity", "%s was made: whoever has it can read the values", done.Made)
	}
	if done.Written {
		p.Field("config", "config.toml names it now; a session whose --egress or [egress] allows the host uses it")
		return nil
	}
	p.Line("add to config.toml:")
	for line := range strings.Lines(done.Lines) {
		p.Line("  %s", strings.TrimSuffix(line, "\n"))
	}
	return nil
}

func (c credentialCommand) test() *cobra.Command {
	return &cobra.Command{
		Use: "test [NAME…]", Short: "read the values of credentials, and show none", Example: "  nacre credentials test\n  nacre credentials test hub",
		RunE: func(cmd *cobra.Command, names []string) error {
			rt, err := c.Open(cmd.Context())
			if err != nil {
				return err
			}
			findings, err := assembly.TryCredentials(cmd.Context(), rt, names)
			if err != nil {
				return err
			}
			if c.JSON {
				err = c.PrintJSON(findings)
			} else {
				c.tried(findings)
			}
			if err != nil {
				return err
			}
			for _, f := range findings {
				if f.Status == "fail" {
					return command.Exit(command.ExitNotReady)
				}
			}
			return nil
		},
	}
}

func (c credentialCommand) tried(findings []assembly.Finding) {
	p := c.Printer(c.Stdout)
	marks := map[string]string{"ok": "ok", "warn": "warn", "fail": "denied"}
	for _, f := range findings {
		text := f.Text
		if f.Fix != "" {
			text += " · " + f.Fix
		}
		p.Mark(marks[f.Status], f.Name, text)
	}
}

func (c credentialCommand) rotate() *cobra.Command {
	return &cobra.Command{
		Use: "rotate NAME", Short: "put a new value in the place of a credential's", Args: command.OneArgument("the name of a credential"),
		Long: `Asks for the new value as add does, and keeps it where the earlier one was. Sessions
that hold the credential use the new value once its ttl is over. The earlier value is
still good where it came from: revoke it there.`,
		Example: "  nacre credentials rotate hub",
		RunE: func(cmd *cobra.Command, args []string) error {
			rt, err := c.Open(cmd.Context())
			if err != nil {
				return err
			}
			k, err := assembly.RotateCredential(cmd.Context(), rt, args[0], c.ask(args[0]))
			if err != nil {
				return err
			}
			if c.JSON {
				return c.PrintJSON(k)
			}
			c.Printer(c.Stdout).Line("%s has its new value in %s; revoke the earlier one where it came from", k.Name, k.From)
			return nil
		},
	}
}

func (c credentialCommand) remove() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "take a credential out of the config, and its value away", Args: command.OneArgument("the name of a credential"),
		Long: `Takes the value out of the key store, the age file or the file that it is in, and the
credential out of config.toml. The value is still good where it came from: revoke it
there. What something else in config.toml uses too stays where it is. Sessions that hold the
credential lose it within about a second; a value that was delivered inside stays there until they end.`,
		Example: "  nacre credentials remove hub",
		RunE: func(cmd *cobra.Command, args []string) error {
			rt, err := c.Open(cmd.Context())
			if err != nil {
				return err
			}
			done, err := assembly.RemoveCredential(cmd.Context(), rt, args[0])
			if err != nil {
				return err
			}
			return c.removed(done)
		},
	}
}

func (c credentialCommand) removed(done assembly.CredentialChange) error {
	if c.JSON {
		return c.PrintJSON(done)
	}
	p := c.Printer(c.Stdout)
	if done.Left != "" {
		p.Field("value", "%s", done.Left)
	} else {
		p.Field("value", "gone from %s; revoke it where it came from", done.From)
	}
	if done.Written {
		p.Field("config", "config.toml no longer names %s", done.Name)
	} else {
		p.Field("config", "take [[credential]] %s out of config.toml", done.Name)
	}
	return nil
}

func (c credentialCommand) leases() *cobra.Command {
	return &cobra.Command{
		Use: "leases", Short: "what sessions hold of credentials, and have not given back", Args: command.NoArguments,
		Long: `Shows which session holds which credential since when, and until when what was minted
for it is good at the latest. With [store] in config.toml, so are those that were minted on the
other machines of the installation, as MACHINE/SESSION; nacre grants revoke ends what a session
may use, on whichever machine it runs.`,
		Example: "  nacre credentials leases",
		RunE: func(cmd *cobra.Command, _ []string) error {
			rt, err := c.Open(cmd.Context())
			if err != nil {
				return err
			}
			held, err := assembly.CredentialLeases(cmd.Context(), rt)
			if err != nil {
				return err
			}
			if c.JSON {
				return c.PrintJSON(append([]assembly.CredentialLease{}, held...))
			}
			c.held(held)
			return nil
		},
	}
}

func (c credentialCommand) held(held []assembly.CredentialLease) {
	p := c.Printer(c.Stdout)
	if len(held) == 0 {
		p.Line("no session holds a credential")
		return
	}
	var rows [][]string
	for _, h := range held {
		session, until := string(h.Session), "-"
		if h.Lost {
			session += " (gone)"
		}
		if !h.Until.IsZero() {
			until = h.Until.Local().Format("15:04")
		}
		rows = append(rows, []string{h.Credential, session, string(h.Group), h.Since.Local().Format("2006-01-02 15:04"), until})
	}
	p.Table([]string{"CREDENTIAL", "SESSION", "GROUP", "SINCE", "GOOD UNTIL"}, rows)
}

func (c credentialCommand) sweep() *cobra.Command {
	return &cobra.Command{
		Use: "sweep", Short: "take back what sessions that crashed left", Args: command.NoArguments,
		Long: `Revokes the credentials that were minted for sessions that are gone, with [store] in
config.toml those of the other machines, too. Each session does so when it opens, and every five
minutes while it holds one. What a provider would not
take back now is tried again by the next sweep, until it has ended by itself.`,
		Example: "  nacre credentials sweep",
		RunE: func(cmd *cobra.Command, _ []string) error {
			rt, err := c.Open(cmd.Context())
			if err != nil {
				return err
			}
			orphans, err := assembly.SweepCredentials(cmd.Context(), rt)
			if err != nil {
				return err
			}
			if c.JSON {
				err = c.PrintJSON(append([]assembly.CredentialOrphan{}, orphans...))
			} else {
				c.swept(orphans)
			}
			for _, o := range orphans {
				if err == nil && o.Left != "" {
					err = command.Exit(command.ExitNotReady)
				}
			}
			return err
		},
	}
}

func (c credentialCommand) swept(orphans []assembly.CredentialOrphan) {
	p := c.Printer(c.Stdout)
	if len(orphans) == 0 {
		p.Line("nothing was left")
	}
	for _, o := range orphans {
		if o.Left != "" {
			p.Mark("denied", o.Credential, "of session "+string(o.Session)+" is not taken back: "+o.Left)
			continue
		}
		p.Mark("ok", o.Credential, "of session "+string(o.Session)+" is taken back")
	}
}
