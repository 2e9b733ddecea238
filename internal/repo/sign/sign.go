// Package sign makes signed copies of commits, with the key of a person who said so (U-04).
// It writes objects into a git directory of the host's own, and moves no ref.
package sign

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/repo/git"
)

// Most is how many commits are signed at once.
const Most = 500

var (
	errNobody = errors.New("git knows neither your name nor your e-mail: set user.name and user.email with git config --global")
	errFormat = errors.New("the commit cannot be read")
)

// Key is a person's name, and the key and program that sign for them.
type Key struct {
	Name, Email string
	// Format is openpgp, ssh or x509, Key what names the key, Program what signs.
	Format, Key, Program string
}

// String says it to a person.
func (k Key) String() string {
	text := fmt.Sprintf("%s <%s>, %s", k.Name, k.Email, k.Format)
	if k.Key != "" {
		text += " key " + k.Key
	}
	return text
}

// KeyOf finds the key in git's settings. Of those that the repository has itself, the name
// and the key count, and no program.
func KeyOf(settings []repo.Setting) (k Key, err error) {
	k.Format = "openpgp"
	programs := map[string]string{"gpg.program": "gpg", "gpg.ssh.program": "ssh-keygen", "gpg.x509.program": "gpgsm"}
	own := map[string]bool{}
	for _, s := range settings {
		if _, names := programs[s.Key]; names && !s.Own {
			programs[s.Key] = s.Value
		}
		into := map[string]*string{"user.name": &k.Name, "user.email": &k.Email, "user.signingkey": &k.Key, "gpg.format": &k.Format}[s.Key]
		if into == nil || own[s.Key] && !s.Own {
			continue
		}
		*into, own[s.Key] = s.Value, s.Own
	}
	switch {
	case k.Name == "" || k.Email == "":
		return k, errNobody
	case k.Format == "openpgp":
		k.Program = programs["gpg.program"]
	case k.Format == "ssh" && k.Key == "":
		return k, errors.New("git knows no key of yours: set user.signingkey with git config --global")
	case k.Format == "ssh" || k.Format == "x509":
		k.Program = programs["gpg."+k.Format+".program"]
	default:
		return k, fmt.Errorf("gpg.format %.20q is not one that git has: write openpgp, ssh or x509", k.Format)
	}
	return k, nil
}

// settings let git sign with the key, and with nothing else.
func (k Key) settings() []string {
	program := "gpg." + k.Format + ".program"
	if k.Format == "openpgp" {
		program = "gpg.program"
	}
	args := []string{"-c", "gpg.format=" + k.Format, "-c", program + "=" + k.Program}
	if k.Key != "" {
		args = append(args, "-c", "user.signingkey="+k.Key)
	}
	return args
}

// environment is what the programs that sign need of a person's. A key that is locked
// is asked for by its agent, and never here.
func environment(getenv func(string) string) []string {
	env := []string{"SSH_ASKPASS_REQUIRE=force"}
	for _, name := range []string{
		"HOME", "GNUPGHOME", "GPG_TTY", "SSH_AUTH_SOCK", "DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "SSH_ASKPASS",
	} {
		if value := getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// Copies makes signed copies of commits, which are given parents first, in the git directory
// of m. The author, the message and the files of each stay; who signs commits them. It
// returns the copy of the last.
func Copies(ctx context.Context, m repo.Making, k Key, commits []repo.Commit, getenv func(string) string) (last repo.Commit, err error) {
	made := map[string]string{}
	for _, id := range commits {
		c, err := read(ctx, m, id)
		if err != nil {
			return "", fmt.Errorf("%.12s: %w", id, err)
		}
		for i, parent := range c.parents {
			if copied, ok := made[parent]; ok {
				c.parents[i] = copied
			}
		}
		text, err := c.copy(ctx, m, k, environment(getenv))
		if err != nil {
			return "", fmt.Errorf("%.12s: it was not signed: %w", id, err)
		}
		if last, err = repo.ParseCommit(text); err != nil {
			return "", err
		}
		made[string(id)] = text
	}
	return last, nil
}

// commit is what of a commit stays in its copy.
type commit struct {
	tree, name, email, when, encoding string
	parents                           []string
	message                           string
}

func read(ctx context.Context, m repo.Making, id repo.Commit) (c commit, err error) {
	text, err := m.Git.Run(ctx, git.Command{GitDir: m.Dir, Args: []string{"cat-file", "commit", string(id)}})
	if err != nil {
		return c, err
	}
	header, message, whole := strings.Cut(string(text), "\n\n")
	c.message = message
	for line := range strings.SplitSeq(header, "\n") {
		switch key, value, _ := strings.Cut(line, " "); key {
		case "tree":
			c.tree = value
		case "parent":
			c.parents = append(c.parents, value)
		case "author":
			c.author(value)
		case "encoding":
			c.encoding = value
		}
	}
	if !whole || c.tree == "" || c.when == "" {
		return c, errFormat
	}
	return c, nil
}

// author reads NAME <E-MAIL> SECONDS ZONE.
func (c *commit) author(line string) {
	name, rest, _ := strings.Cut(line, " <")
	email, when, _ := strings.Cut(rest, "> ")
	seconds, zone, _ := strings.Cut(when, " ")
	if _, err := strconv.ParseInt(seconds, 10, 64); err == nil && zone != "" {
		c.name, c.email, c.when = name, email, "@"+seconds+" "+zone
	}
}

// copy makes the signed copy, and returns its id.
func (c commit) copy(ctx context.Context, m repo.Making, k Key, env []string) (string, error) {
	args := k.settings()
	if c.encoding != "" {
		args = append(args, "-c", "i18n.commitEncoding="+c.encoding)
	}
	args = append(args, "commit-tree", "-S", "-F", "-")
	for _, parent := range c.parents {
		args = append(args, "-p", parent)
	}
	return m.Git.Line(ctx, git.Command{
		GitDir: m.Dir, Args: append(args, c.tree), Stdin: strings.NewReader(c.message),
		Env: slices.Concat(env, []string{
			"GIT_AUTHOR_NAME=" + c.name, "GIT_AUTHOR_EMAIL=" + c.email, "GIT_AUTHOR_DATE=" + c.when,
			"GIT_COMMITTER_NAME=" + k.Name, "GIT_COMMITTER_EMAIL=" + k.Email,
			"GIT_COMMITTER_DATE=@" + strconv.FormatInt(m.Now.Unix(), 10) + " " + m.Now.Format("-0700"),
		}),
	})
}

// Summary are the first lines of commits' messages, for a person to see what is signed.
func Summary(ctx context.Context, m repo.Making, commits []repo.Commit) (lines []string, err error) {
	for _, id := range commits {
		c, err := read(ctx, m, id)
		if err != nil {
			return nil, fmt.Errorf("%.12s: %w", id, err)
		}
		subject, _, _ := strings.Cut(c.message, "\n")
		lines = append(lines, fmt.Sprintf("%.7s %s <%s>  %s", id, c.name, c.email, subject))
	}
	return lines, nil
}
