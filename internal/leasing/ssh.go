package leasing

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/lease/sshagent"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/question"
)

const (
	// sshDir holds, in the folder of sockets, what OpenSSH inside is told of hosts.
	sshDir = "ssh"
	// sshConfig is where OpenSSH reads its settings.
	sshConfig = "/etc/ssh/ssh_config"
	// maxLogins are those that a session is given, and maxRefused the refusals that are
	// recorded: what is inside must not fill the disk with them.
	maxLogins, maxRefused = 10_000, 1000
	// loginSpan is how long an answer holds, where it does not say how long.
	loginSpan = 24
)

// logins are what a session has of keys of SSH. A zero one has none.
type logins struct {
	mu            sync.Mutex
	given, denied int
}

// count counts one, and reports whether there may be as many.
func (l *logins) count(n *int, most int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	*n++
	return *n <= most
}

// overSSH are the credentials that are keys of SSH.
func (l *Credentials) overSSH() []*hold {
	if l == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(l.holds), func(h *hold) bool { return !h.config.OverSSH() })
}

// ServeSSH answers the logins of programs inside (M-36). warn tells the operator what was refused: a client
// inside learns no more than that it was.
func (l *Credentials) ServeSSH(warn func(nacre.Step)) error {
	holds := l.overSSH()
	if len(holds) == 0 {
		return nil
	}
	a := sshagent.Agent{
		Keys: func(ctx context.Context) (keys []sshagent.Key) {
			for _, h := range holds {
				if signer, err := h.signer(ctx); err == nil {
					keys = append(keys, h.key(signer))
				}
			}
			return keys
		},
		Refused: func(ctx context.Context, key string, why error) {
			if !l.logins.count(&l.logins.denied, maxRefused) {
				return
			}
			_ = l.record(ctx, recordRefused, map[string]string{"credential": key, "reason": why.Error()}) // nothing was done
			warn(nacre.Step{Kind: nacre.StepResult, Name: "ssh", Text: strings.TrimSpace("no login with an SSH key: " + key + ": " + why.Error()), IsError: true})
		},
	}
	return l.session.Listen(nacre.SSHSocket, func(ctx context.Context, listener *net.UnixListener) error { return a.Serve(ctx, listener) })
}

// signer is the private key, which is read once.
func (h *hold) signer(ctx context.Context) (sshagent.Signer, error) {
	h.reading.Lock()
	defer h.reading.Unlock()
	if h.private != nil {
		return h.private, nil
	}
	private, err := h.config.Source().Signer(ctx, h.of.inst.Options.Getenv)
	if err != nil {
		return nil, fmt.Errorf("credential %s: %w", h.config.Name, err)
	}
	h.private = private
	return private, nil
}

// key is what the agent has of the credential.
func (h *hold) key(private sshagent.Signer) sshagent.Key {
	return sshagent.Key{
		Comment: h.config.Name, Public: private.Public(), User: h.config.User, Hosts: h.config.Hosts(),
		Sign: func(ctx context.Context, login sshagent.Login) (*ssh.Signature, error) {
			if err := h.loggedIn(ctx); err != nil {
				return nil, err
			}
			detail := map[string]string{"credential": h.config.Name, "login": h.login(), "key": ssh.FingerprintSHA256(private.Public()), "host_key": ssh.FingerprintSHA256(login.Host)}
			if err := h.of.record(ctx, "signed", detail); err != nil {
				return nil, err // what cannot be recorded is not signed
			}
			return private.Sign(ctx, login)
		},
	}
}

// login says whom the key logs in as, and where.
func (h *hold) login() string {
	rule := h.config.Rule(nil)
	return h.config.User + "@" + net.JoinHostPort(rule.Host, strconv.Itoa(int(rule.Port)))
}

// loggedIn waits until the login may happen, and counts it. What was taken back while a person was waited for
// logs in nowhere.
func (h *hold) loggedIn(ctx context.Context) error {
	if !h.of.logins.count(&h.of.logins.given, maxLogins) {
		return fmt.Errorf("the session had %d logins already", maxLogins)
	}
	for {
		if err := h.gone(); err != nil {
			return err
		}
		done, err := h.spend()
		if done || err != nil {
			return err
		}
		if err := h.granted(ctx); err != nil {
			return err
		}
	}
}

// spend takes one login of what a person granted, and forgets what is used up.
func (h *hold) spend() (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.of.inst.Options.Now()
	switch {
	case h.ended:
		return false, lease.ErrEnded
	case h.config.Confirm == lease.ConfirmNever:
		h.standing.loggedIn(now, time.Time{})
		return true, nil
	case h.budget == nil:
		return false, nil
	case lease.Over(now, h.budget.Until) || h.budget.Renewals < 0:
		h.budget = nil
		return false, nil
	}
	h.budget.Renewals--
	h.standing.loggedIn(now, h.budget.Until)
	return true, nil
}

// budgeting is what a person is asked to grant.
func (h *hold) budgeting() lease.Budgeting {
	switch {
	case !h.config.OverSSH():
		return h.config.Mint.Budget
	case h.config.Confirm == lease.ConfirmEach:
		return lease.Budgeting{Hours: loginSpan}
	}
	return lease.Budgeting{Hours: loginSpan, Renewals: maxLogins}
}

// loginAsked is what a person is shown of a login.
func (h *hold) loginAsked() question.Login {
	asked := question.Login{Credential: h.config.Name, Login: h.login(), Once: h.config.Confirm == lease.ConfirmEach}
	if h.private != nil {
		asked.Key = ssh.FingerprintSHA256(h.private.Public())
	}
	for _, host := range h.config.Hosts() {
		asked.HostKeys = append(asked.HostKeys, ssh.FingerprintSHA256(host))
	}
	return asked
}

// describeSSH writes what OpenSSH inside is told: where the hosts are, and which keys
// they have.
func (l *Credentials) describeSSH() error {
	holds := l.overSSH()
	if len(holds) == 0 {
		return nil
	}
	var config, known strings.Builder
	for _, h := range holds {
		rule := h.config.Rule(nil)
		fmt.Fprintf(&config, "Host %s\n  Port %d\n  User %s\n  StrictHostKeyChecking yes\n", rule.Host, rule.Port, h.config.User)
		name := rule.Host
		if rule.Port != 22 {
			name = "[" + rule.Host + "]:" + strconv.Itoa(int(rule.Port))
		}
		for _, key := range h.config.Hosts() {
			known.WriteString(name + " " + string(ssh.MarshalAuthorizedKey(key)))
		}
	}
	inside := nacre.SocketDir + "/" + sshDir + "/"
	fmt.Fprintf(&config, "Host *\n  ProxyCommand %s/ipc --connect %%h:%%p\n  GlobalKnownHostsFile %sknown_hosts\n  UpdateHostKeys no\n  ForwardAgent no\n", posture.BinDir, inside)
	dir := filepath.Join(l.session.SocketDir(), sshDir)
	return errors.Join(os.MkdirAll(dir, 0o755), give(filepath.Join(dir, "config"), []byte(config.String())), give(filepath.Join(dir, "known_hosts"), []byte(known.String())))
}

// shownSSH is where a program inside finds the agent and those settings.
func (l *Credentials) shownSSH() ([]nacre.Mount, []string) {
	if len(l.overSSH()) == 0 {
		return nil, nil
	}
	config := filepath.Join(l.session.SocketDir(), sshDir, "config")
	return []nacre.Mount{{Kind: nacre.BindReadOnly, Source: config, Target: sshConfig}}, []string{"SSH_AUTH_SOCK=" + nacre.SocketDir + "/" + nacre.SSHSocket}
}

// checkSSH tries to read a key, and prints its fingerprint.
func checkSSH(ctx context.Context, h *hold) installation.Finding {
	key, err := h.signer(ctx)
	if err != nil {
		return installation.Finding{Name: "credential", Status: "fail", Text: err.Error(), Fix: "put a private key without a passphrase there, or name one of your ssh-agent with value_agent: sessions of " + strings.Join(h.config.Groups, ", ") + " need it"}
	}
	return installation.Finding{Name: "credential", Status: "ok", Text: h.config.Name + " for SSH to " + h.login() + " · " + ssh.FingerprintSHA256(key.Public()) + " from " + h.config.Source().String() + " · stays outside", Fix: ""}
}
