package main_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// sshHost is a host of SSH that serves one git repository, and knows one key.
type sshHost struct {
	key  ssh.Signer
	at   string
	mu   sync.Mutex
	seen []string // who logged in, and what they ran
	// streams are the commands that end with their connection.
	streams atomic.Int32
}

func (h *sshHost) log() []string { h.mu.Lock(); defer h.mu.Unlock(); return slices.Clone(h.seen) }

func sshKey(t *testing.T) (ssh.Signer, string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer, string(pem.EncodeToMemory(block))
}

// newSSHHost serves root on loopback until the test ends, to whoever has the key.
func newSSHHost(t *testing.T, root string, known ssh.PublicKey) *sshHost {
	t.Helper()
	h := &sshHost{}
	h.key, _ = sshKey(t)
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(known.Marshal()) {
			return nil, errors.New("unknown key")
		}
		return nil, nil //nolint:nilnil // no permissions of their own
	}}
	config.AddHostKey(h.key)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.at = l.Addr().String()
	var clients sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); clients.Wait() })
	clients.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			clients.Go(func() { h.serve(conn, config, root) })
		}
	})
	return h
}

func (h *sshHost) serve(conn net.Conn, config *ssh.ServerConfig, root string) {
	defer func() { _ = conn.Close() }()
	server, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for next := range channels {
		channel, requests, err := next.Accept()
		if err != nil {
			return
		}
		for r := range requests {
			var command struct{ Line string }
			if r.Type != "exec" || ssh.Unmarshal(r.Payload, &command) != nil {
				_ = r.Reply(r.Type == "env", nil)
				continue
			}
			h.mu.Lock()
			h.seen = append(h.seen, server.User()+" ran "+command.Line)
			h.mu.Unlock()
			_ = r.Reply(true, nil)
			if command.Line == "wait" {
				h.streams.Add(1)
				_ = server.Wait()
				h.streams.Add(-1)
				return
			}
			code := runForSSH(channel, root, command.Line)
			_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{code}))
			_ = channel.Close()
		}
	}
}

// run is what the host does: git's two halves, and nothing else.
func runForSSH(channel ssh.Channel, root, line string) uint32 {
	program, path, _ := strings.Cut(line, " ")
	command := exec.Command("git", strings.TrimPrefix(program, "git-"), filepath.Join(root, strings.Trim(path, "'")))
	command.Stdout, command.Stderr = channel, channel.Stderr()
	in, err := command.StdinPipe()
	if err != nil || program != "git-upload-pack" && program != "git-receive-pack" {
		_, _ = io.WriteString(channel, "it answered\n")
		return 0
	}
	go func() { _, _ = io.Copy(in, channel); _ = in.Close() }()
	if command.Run() != nil {
		return 1
	}
	return 0
}

// sshForge is an installation with a key for one host, and a host that has a repository.
func sshForge(t *testing.T) (*installation, *sshHost, ssh.Signer) {
	t.Helper()
	testpeer.Need(t, "ssh")
	testpeer.Need(t, "git")
	i := install(t)
	if out, err := i.command("git", "init", "-q", "--bare", "-b", "main", "acme/app.git").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	key, private := sshKey(t)
	h := newSSHHost(t, i.work, key.PublicKey())
	i.sshConfig(h, "value_file = "+fmt.Sprintf("%q", i.write("id", private)))
	return i, h, key
}

// sshConfig lets sessions log in at a host, whose value is somewhere.
func (i *installation) sshConfig(h *sshHost, more ...string) {
	i.config(fmt.Sprintf(`[egress]
allow = ["git.example:22/tcp"]
pin = { "git.example:22" = %q }
[approval]
hold = "1m"
[[credential]]
name = "forge"
scheme = "ssh"
host = "git.example"
user = "git"
host_keys = [%q]
groups = ["main"]
standing_secret = true
%s
`, h.at, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(h.key.PublicKey()))), strings.Join(more, "\n")))
}

const cloneAndPush = `set -e
git clone -q git@git.example:acme/app.git /tmp/app 2>&1
cd /tmp/app
git config user.email a@b.c; git config user.name a
echo hello >hello; git add hello; git commit -qm hello
git push -q origin HEAD:refs/heads/agent/hello
ssh-add -L; env | grep SSH`

// M-36: git clones and pushes over SSH with a key that stays outside, once a person let it.
func TestAKeyOfSSHLogsInFromOutside(t *testing.T) {
	t.Parallel()
	i, h, key := sshForge(t)
	i.nacre("explain").want(t, 0, "forge for SSH to git@git.example:22", "logged in to with forge")
	i.nacre("credentials", "list").want(t, 0, "forge", "git@git.example SSH")
	i.nacre("credentials", "test").want(t, 0, ssh.FingerprintSHA256(key.PublicKey()), "stays outside")
	r := i.begin("exec", "--session", "asks", "--", "sh", "-c", cloneAndPush)
	q := i.question()
	i.nacre("approvals", "list").want(t, 0, "log in with an SSH key", "git@git.example:22", ssh.FingerprintSHA256(h.key.PublicKey()))
	if log := h.log(); len(log) > 0 {
		t.Errorf("before anybody said yes, %v", log)
	}
	i.nacre("approvals", "approve", q.ID).want(t, 0)
	finish(t, r).want(t, 0, "ssh-ed25519 ", "SSH_AUTH_SOCK=/run/nacre/ssh.sock")
	want := []string{"git ran git-upload-pack 'acme/app.git'", "git ran git-receive-pack 'acme/app.git'"}
	if log := h.log(); !slices.Equal(log, want) {
		t.Errorf("the host saw %v", log)
	}
	if text, err := i.command("git", "-C", "acme/app.git", "show", "agent/hello:hello").Output(); err != nil || string(text) != "hello\n" {
		t.Errorf("what was pushed is %q: %v", text, err)
	}
	records := i.records("asks")
	if signed := strings.Count(records, `"outcome":"signed"`); signed != 2 {
		t.Errorf("%d logins are recorded", signed)
	}
	i.nacre("audit", "verify").want(t, 0)
}

// M-36: the agent of a session signs for the listed host, user and purpose alone, and
// whoever asks it for anything else finds out nothing, while the operator is told.
func TestAKeyOfSSHIsGoodForNothingElse(t *testing.T) {
	t.Parallel()
	i, h, key := sshForge(t)
	other := newSSHHost(t, i.work, key.PublicKey()) // it would let the key in, and is not listed
	i.sshConfig(h, `confirm = "never"`, "value_file = "+fmt.Sprintf("%q", filepath.Join(i.work, "id")))
	i.config(strings.Replace(strings.Replace(strings.Replace(i.configured(), `hold = "1m"`, `hold = "0s"`, 1), `allow = [`, `allow = ["other.example:22/tcp", `, 1), `pin = {`, fmt.Sprintf(`pin = { "other.example:22" = %q,`, other.at), 1))
	for name, c := range map[string]struct{ script, want string }{
		"the host, as it is listed":  {"ssh git.example true", "it answered"},
		"another user":               {"ssh root@git.example true", `it logs in as "root"`},
		"another host":               {"ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null git@other.example true", "Permission denied (publickey)"},
		"a host that is not known":   {"ssh git@other.example true", "Host key verification failed"},
		"a file":                     {"ssh-add -L >/tmp/k; echo x | ssh-keygen -q -Y sign -n git -f /tmp/k", "did not say which host"},
		"a key of the agent's":       {"ssh-keygen -q -t ed25519 -N '' -f /tmp/own; ssh-add /tmp/own", "agent refused operation"},
		"all keys away":              {"ssh-add -D", "Failed to remove"},
		"a forwarded agent":          {"ssh -A git.example true", "it answered"},
		"a host that nobody allowed": {"ssh git@third.example true", "--egress third.example:22/tcp"},
		"half a message":             {"python3 -c 'import socket,os\ns=socket.socket(socket.AF_UNIX); s.connect(os.environ[\"SSH_AUTH_SOCK\"]); s.sendall(b\"\\xff\\xff\\xff\\xff\"); print(len(s.recv(9)), \"bytes\")'", "0 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := i.nacre("exec", "--", "sh", "-c", c.script)
			if !strings.Contains(r.stdout+r.stderr, c.want) {
				t.Errorf("have %d\n%s%s\nwant %q", r.code, r.stdout, r.stderr, c.want)
			}
		})
	}
	t.Cleanup(func() {
		if log := other.log(); len(log) > 0 {
			t.Errorf("another host let it in: %v", log)
		}
	})
}

// M-36: a denial holds for the session, and an answer for one login is for one.
func TestALoginIsAskedForAsTheOperatorSays(t *testing.T) {
	t.Parallel()
	i, h, _ := sshForge(t)
	r := i.begin("exec", "--session", "asks", "--", "sh", "-c", "ssh git.example true; ssh git.example true")
	i.nacre("approvals", "deny", i.question().ID).want(t, 0)
	denied := finish(t, r)
	denied.want(t, 255, "Permission denied", "a person denied it for this session")
	i.sshConfig(h, `confirm = "each"`, "value_file = "+fmt.Sprintf("%q", filepath.Join(i.work, "id")))
	r = i.begin("exec", "--session", "each", "--", "sh", "-c", "ssh git.example true; ssh git.example true")
	first := i.question()
	i.nacre("approvals", "show", first.ID).want(t, 0, "one login; what it does there is not seen")
	i.nacre("approvals", "approve", first.ID).want(t, 0)
	var second string
	eventually(t, "a second question", func() bool {
		for _, q := range i.questions() {
			second = q.ID
		}
		return second != "" && second != first.ID
	})
	i.nacre("approvals", "approve", second).want(t, 0)
	finish(t, r).want(t, 0, "it answered\nit answered\n")
	if log := h.log(); len(log) != 2 {
		t.Errorf("the host saw %v", log)
	}
}

// M-36, M-37: a key in the operator's own agent is used where it is, and no other one of it.
func TestAKeyOfTheOperatorsAgentIsUsedWhereItIs(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "ssh-agent")
	i, h, key := sshForge(t)
	socket := filepath.Join(t.TempDir(), "a")
	agent := i.command("ssh-agent", "-D", "-a", socket)
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Process.Kill(); _ = agent.Wait() })
	i.env = append(i.env, "SSH_AUTH_SOCK="+socket)
	eventually(t, "an agent", func() bool { return i.command("ssh-add", filepath.Join(i.work, "id")).Run() == nil })
	_, spare := sshKey(t)
	if out, err := i.command("ssh-add", i.write("spare", spare)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	i.sshConfig(h, `confirm = "never"`, fmt.Sprintf("value_agent = %q", ssh.FingerprintSHA256(key.PublicKey())))
	i.nacre("exec", "--", "sh", "-c", "ssh git.example true; ssh-add -L | wc -l").want(t, 0, "it answered\n1\n")
	i.sshConfig(h, `value_agent = "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"`)
	i.nacre("exec", "--", "true").want(t, 125, "your ssh-agent has no key SHA256:AAAA", "ssh-add -l")
}
