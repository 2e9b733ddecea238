package main_test

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// caller says a word to a port inside until it is answered, or a few times, and prints the answer.
// One that is closed without an answer prints nothing.
const caller = `
import socket, sys
def call(host, port):
    s = socket.create_connection((host, port), timeout=60)
    s.sendall(b'a word'); s.shutdown(socket.SHUT_WR)
    said = b''
    while True:
        piece = s.recv(4096)
        if not piece: break
        said += piece
    s.close()
    return said.decode()
for host in sys.argv[2].split(','):
    try: print(host, 'said', call(host, int(sys.argv[1])))
    except OSError as e: print(host, 'failed', e)
`

// local answers on this machine with what it is sent, at an address and a port of its own.
func local(t *testing.T, network, address string) int {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				said, _ := io.ReadAll(conn)
				_, _ = conn.Write(append([]byte("yes, "), said...))
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// calling is a session that calls a port inside.
func calling(t *testing.T) *installation {
	t.Helper()
	testpeer.Need(t, "python3")
	i := install(t)
	i.write("p/call.py", caller)
	return i
}

func (i *installation) call(session string, port int, hosts string, flags ...string) *running {
	arguments := append([]string{"exec", "--project", "p", "--session", session}, flags...)
	return i.begin(append(arguments, "--", "python3", "/workspace/call.py", strconv.Itoa(port), hosts)...)
}

// U-06: a service of this machine is there at the same address inside, where it listens by IPv4 and
// where by IPv6. It is recorded as egress is. Another port is not there.
func TestAServiceOfThisMachineIsReached(t *testing.T) {
	t.Parallel()
	i := calling(t)
	for network, address := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			port, other := local(t, network, address), local(t, network, address)
			r := i.call("reaches-"+network, port, "127.0.0.1,::1,localhost", "--reach", fmt.Sprintf("localhost:%d", port))
			finish(t, r).want(t, 0, "127.0.0.1 said yes, a word", "::1 said yes, a word", "localhost said yes, a word")
			records := i.records("reaches-" + network)
			for _, part := range []string{`"kind":"egress"`, fmt.Sprintf(`"port":%d`, port), `"outcome":"allowed"`, `"outcome":"closed"`, `"host":"localhost"`} {
				if !strings.Contains(records, part) {
					t.Errorf("the records have no %s", part)
				}
			}
			finish(t, i.call("strays-"+network, other, "127.0.0.1,::1", "--reach", fmt.Sprintf("localhost:%d", port))).want(t, 0, "127.0.0.1 failed", "::1 failed")
		})
	}
}

// U-06: what is no service of this machine is refused before anything runs.
func TestWhatIsNoServiceOfThisMachineIsRefused(t *testing.T) {
	t.Parallel()
	i := install(t)
	for word, want := range map[string]string{
		"db.example:5432": "is not a service of this machine",
		"10.0.0.1:5432":   "is not a service of this machine",
		"localhost":       "is not a service of this machine",
		"localhost:0":     "the port is a number from 1 to 65535",
		"127.0.0.2:5432":  "is not a service of this machine",
		"localhost:3128":  "port 3128 inside is nacre's own",
	} {
		i.nacre("exec", "--reach", word, "--", "true").want(t, 125, want)
	}
}

// U-06: what the config lets a session ask for is asked, once, and the connection waits.
func TestAServiceThatIsNotNamedIsAskedFor(t *testing.T) {
	t.Parallel()
	for verb, want := range map[string]string{"approve": "127.0.0.1 said yes, a word", "deny": "127.0.0.1 said \n"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			i, port := calling(t), local(t, "tcp4", "127.0.0.1:0")
			i.config(fmt.Sprintf("[approval]\nhold = \"1m\"\n[egress]\nreach = [\"localhost:%d\"]\n", port))
			r := i.call("asks", port, "127.0.0.1")
			q := i.question()
			i.nacre("approvals", verb, q.ID).want(t, 0)
			finish(t, r).want(t, 0, want)
			i.nacre("audit", "verify").want(t, 0)
		})
	}
}

// isNacresOwn holds a page of nacre's on this machine to be reached by no session.
func (i *installation) isNacresOwn(page string) {
	i.t.Helper()
	at, err := url.Parse(page)
	check(i.t, err)
	i.nacre("exec", "--reach", "localhost:"+at.Port(), "--", "true").want(i.t, 125, "nacre itself listens on port "+at.Port())
}

// U-06: no session reaches the web page.
func TestNoSessionReachesTheWebPage(t *testing.T) {
	t.Parallel()
	i := calling(t)
	i.isNacresOwn(i.pageLink())
	port := freePort(t)
	i.config(fmt.Sprintf("[web]\nport = %d\n", port))
	i.write("p/wait.sh", `touch ready; until test -e go; do sleep 0.02; done; python3 call.py "$1" 127.0.0.1`)
	before := i.begin("exec", "--project", "p", "--session", "before", "--reach", fmt.Sprintf("localhost:%d", port), "--",
		"sh", "/workspace/wait.sh", strconv.Itoa(port))
	eventually(t, "the session that comes first", func() bool { return isThere(filepath.Join(i.work, "p/ready")) })
	i.isNacresOwn(i.pageLink())
	i.write("p/go", "")
	finish(t, before)
	has(t, i.records("before"), `"reason":"not_reached"`)
}

// U-06: no session reaches what nacre itself listens on, such as a port that another
// session publishes: not where it is there already, nor where it comes later.
func TestNoSessionReachesNacresOwnPorts(t *testing.T) {
	t.Parallel()
	i, port := calling(t), freePort(t)
	i.write("p/serve.py", server)
	i.write("p/wait.sh", `touch ready; until test -e go; do sleep 0.02; done; python3 call.py "$1" 127.0.0.1`)
	before := i.begin("exec", "--project", "p", "--session", "before", "--reach", fmt.Sprintf("localhost:%d", port), "--",
		"sh", "/workspace/wait.sh", strconv.Itoa(port))
	eventually(t, "the session that comes first", func() bool { _, err := os.Stat(filepath.Join(i.work, "p/ready")); return err == nil })
	other := i.begin("exec", "--session", "publishes", "--publish", strconv.Itoa(port), "--project", "p", "--", "python3", "/workspace/serve.py", "127.0.0.1", strconv.Itoa(port))
	eventually(t, "the port", func() bool { return got(fmt.Sprintf("http://127.0.0.1:%d/", port)) == "hello" })
	i.nacre("exec", "--reach", fmt.Sprintf("localhost:%d", port), "--", "true").want(t, 125, fmt.Sprintf("nacre itself listens on port %d", port))
	i.write("p/go", "")
	if ended := finish(t, before); !strings.Contains(ended.stdout, "127.0.0.1 said \n") && !strings.Contains(ended.stdout, "failed") {
		t.Errorf("have %s%s", ended.stdout, ended.stderr)
	}
	if records := i.records("before"); !strings.Contains(records, `"reason":"not_reached"`) {
		t.Error("the records do not say why")
	}
	i.nacre("sessions", "stop", "publishes").want(t, 0)
	_ = finish(t, other)
}

// U-06: nor does one reach it by a name that is pinned to it.
func TestNoSessionReachesAPageThatIsPinned(t *testing.T) {
	t.Parallel()
	i, port := install(t), freePort(t)
	i.config(fmt.Sprintf("[web]\nport = %[1]d\n[egress]\nallow = [\"page.test:%[1]d/tcp\"]\npin = { \"page.test:%[1]d\" = \"127.0.0.1:%[1]d\" }\n", port))
	i.pageLink()
	asked := i.nacre("exec", "--session", "named", "--", "curl", "-s", "-p", "-x", "http://127.0.0.1:3128", "-H", fmt.Sprintf("Host: localhost:%d", port), fmt.Sprintf("http://page.test:%d/", port))
	hasNo(t, asked.stdout, "Sign in")
	has(t, i.records("named"), `"reason":"not_reached"`)
}
