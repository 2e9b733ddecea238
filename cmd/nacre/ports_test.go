package main_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// freePort is one that nobody had a moment ago, by IPv4 and IPv6.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// server answers GET with a word, Upgrade: echo with what it is sent, line by line, and
// counts connections that ended their side first.
const server = `
import socket, sys, threading
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
l = socket.socket(family); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
l.bind((sys.argv[1], int(sys.argv[2]))); l.listen(64)
def serve(c):
    f = c.makefile('rwb')
    request = f.readline()
    while f.readline() not in (b'\r\n', b''): pass
    if b'/ws' in request:
        f.write(b'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'); f.flush()
        while True:
            line = f.readline()
            if not line: break
            f.write(b'> ' + line); f.flush()
        f.write(b'the end\n'); f.flush()
    else:
        f.write(b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello'); f.flush()
    c.shutdown(socket.SHUT_WR); c.close()
while True:
    c, _ = l.accept(); threading.Thread(target=serve, args=(c,), daemon=True).start()
`

// publishing starts a command that serves on a port inside.
func publishing(t *testing.T, address string, inside int, flags ...string) (*installation, *running) {
	t.Helper()
	testpeer.Need(t, "python3")
	i := install(t)
	i.write("p/serve.py", server)
	arguments := append([]string{"exec", "--project", "p", "--session", "serves", "--time", "5m"}, flags...)
	return i, i.begin(append(arguments, "--", "python3", "/workspace/serve.py", address, strconv.Itoa(inside))...)
}

func got(url string) string {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(url)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = answer.Body.Close() }()
	body, _ := io.ReadAll(answer.Body)
	return string(body)
}

// U-06, F-119: a port that is published is reached on both loopback addresses of this machine and
// nowhere else. HTTP reaches it, and what upgrades from it, with each direction ending by itself.
// The port ends with the session.
func TestAPublishedPortIsReachedOnTheLoopbackAlone(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{"IPv4": "127.0.0.1", "IPv6": "::1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := freePort(t)
			i, r := publishing(t, address, 8080, "--publish", fmt.Sprintf("%d:8080", port))
			for _, at := range []string{"127.0.0.1", "[::1]", "localhost"} {
				url := fmt.Sprintf("http://%s:%d/", at, port)
				eventually(t, url, func() bool { return got(url) == "hello" })
			}
			upgraded(t, port)
			for _, at := range machineAddresses(t) {
				if conn, err := net.DialTimeout("tcp", net.JoinHostPort(at, strconv.Itoa(port)), time.Second); err == nil {
					_ = conn.Close()
					t.Errorf("%s leads inside too", at)
				}
			}
			if records := i.records("serves"); !strings.Contains(records, `"kind":"port.publish"`) {
				t.Error("it is not in the audit")
			}
			i.nacre("sessions", "stop", "serves").want(t, 0)
			ended := finish(t, r)
			if link := fmt.Sprintf("http://127.0.0.1:%d leads to port 8080 inside", port); !strings.Contains(ended.stderr, link) {
				t.Errorf("the link is not printed: %s", ended.stderr)
			}
			if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err != nil {
				t.Errorf("the port outlives its session: %v", err)
			} else {
				_ = l.Close()
			}
		})
	}
}

// upgraded speaks as a websocket does: lines both ways, then one side ends.
func upgraded(t *testing.T, port int) {
	t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	from := bufio.NewReader(conn)
	_, _ = io.WriteString(conn, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	for line := ""; line != "\r\n"; {
		if line, err = from.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	for _, said := range []string{"one\n", "two\n"} {
		_, _ = io.WriteString(conn, said)
		if line, err := from.ReadString('\n'); line != "> "+said {
			t.Fatalf("have %q, %v", line, err)
		}
	}
	_ = conn.(*net.TCPConn).CloseWrite()
	if rest, err := io.ReadAll(from); string(rest) != "the end\n" || err != nil {
		t.Errorf("after one side ended: have %q, %v", rest, err)
	}
}

// machineAddresses are those of this machine beside its loopback.
func machineAddresses(t *testing.T) []string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	list := []string{"127.0.0.2"}
	for _, a := range all {
		if at, ok := a.(*net.IPNet); ok && !at.IP.IsLoopback() && !at.IP.IsLinkLocalUnicast() {
			list = append(list, at.IP.String())
		}
	}
	return list
}

// takenBelow listens on a port of five digits that is less, until the test ends.
func takenBelow(t *testing.T, most int) int {
	t.Helper()
	for port := most - 1; ; port-- {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			t.Cleanup(func() { _ = l.Close() })
			return port
		}
		if port < 10000 {
			t.Fatal(err)
		}
	}
}

// U-06: a port that is taken, and one that is no port, are refused before anything runs.
func TestAPortThatCannotBePublishedIsRefused(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	port := taken.Addr().(*net.TCPAddr).Port
	i := install(t)
	for word, want := range map[string]string{
		strconv.Itoa(port):                   "is taken by another program: name a free one",
		strconv.Itoa(takenBelow(t, 20000)):   "such as --publish 2",
		"0.0.0.0:3000":                       "write PORT, PORT:INSIDE or auto",
		fmt.Sprintf("%d:3128", freePort(t)):  "port 3128 inside is nacre's own",
		fmt.Sprintf("%d:70000", freePort(t)): "write PORT, PORT:INSIDE or auto",
	} {
		i.nacre("exec", "--publish", word, "--", "true").want(t, 125, want)
	}
}

// U-06: what begins to listen is announced once, at a port that the kernel chose. One that opens
// many ports is announced no more than a few times.
func TestPortsThatBeginToListenAreAnnounced(t *testing.T) {
	t.Parallel()
	i, r := publishing(t, "127.0.0.1", 8080, "--publish", "auto")
	link := regexp.MustCompile(`"addresses":\["127\.0\.0\.1:(\d+)"[^}]*"inside":8080`)
	var url string
	eventually(t, "the port", func() bool {
		found := link.FindStringSubmatch(i.records("serves"))
		if found != nil {
			url = "http://127.0.0.1:" + found[1] + "/"
		}
		return found != nil && got(url) == "hello"
	})
	if url == "http://127.0.0.1:8080/" {
		t.Error("what runs inside chose the port of this machine")
	}
	i.nacre("sessions", "stop", "serves").want(t, 0)
	if ended := finish(t, r); strings.Count(ended.stderr, "leads to port 8080 inside") != 1 {
		t.Errorf("have %s", ended.stderr)
	}
}

// U-06: an agent that opens a thousand ports is announced sixteen times, and then once.
func TestAFloodOfPortsIsAFewLines(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "python3")
	i := install(t)
	i.write("p/flood.py", `
import socket, os, time
held = []
for port in range(20000, 20600):
    s = socket.socket(); s.bind(('127.0.0.1', port)); s.listen(1); held.append(s)
while not os.path.exists('/workspace/go'): time.sleep(0.02)
`)
	r := i.begin("exec", "--project", "p", "--session", "serves", "--publish", "auto", "--", "python3", "/workspace/flood.py")
	eventually(t, "the last port", func() bool { return strings.Count(i.records("serves"), `"kind":"port.publish"`) >= 16 })
	i.write("p/go", "")
	ended := finish(t, r)
	if n := strings.Count(ended.stderr, "inside"); n > 17 || !strings.Contains(ended.stderr, "and further ones, are not published") {
		t.Errorf("%d lines: %s", n, ended.stderr)
	}
	if n := strings.Count(i.records("serves"), `"kind":"port.publish"`); n != 16 {
		t.Errorf("%d ports are published", n)
	}
}
