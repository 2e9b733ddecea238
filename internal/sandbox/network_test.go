package sandbox_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox"
)

// serveAt makes this program answer at an address, inside.
const serveAt = "NACRE_TEST_SERVE"

// echo answers each connection with all that it was sent, once that has ended.
func echo(at string) error {
	listener, err := net.Listen("tcp", at)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer func() { _ = conn.Close() }()
			if said, err := io.ReadAll(conn); err == nil {
				_, _ = conn.Write(said)
			}
		}()
	}
}

// answering starts a sandbox in which a program listens.
func answering(t *testing.T, at string) *sandbox.Network {
	t.Helper()
	network, err := sandbox.NewNetwork()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = network.Close() })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stdout, stdoutWrite := pipe(t)
	c := command("/opt/answers")
	c.Network, c.Stdout, c.Stderr = network, stdoutWrite, stdoutWrite
	c.Posture.Mounts = append(c.Posture.Mounts, nacre.Mount{Kind: nacre.BindReadOnly, Source: self, Target: "/opt/answers"})
	c.Posture.Env = append(c.Posture.Env, serveAt+"="+at)
	p, err := open(t).Start(t.Context(), c)
	_ = stdoutWrite.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Fatalf("have %q, %v", line, err)
	}
	return network
}

// U-06: the host reaches what listens inside, by IPv4 and IPv6, and each direction of
// a connection ends by itself.
func TestTheHostReachesAPortInside(t *testing.T) {
	for _, at := range []string{"127.0.0.1:3000", "0.0.0.0:3000", "[::1]:3000", "[::]:3000"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			network := answering(t, at)
			if ports, err := network.Listening(); err != nil || !slices.Equal(ports, []uint16{3000}) {
				t.Errorf("have ports %v, %v", ports, err)
			}
			conn, err := network.Dial(3000)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			said := strings.Repeat("a long word ", 100_000)
			go func() {
				_, _ = io.WriteString(conn, said)
				_ = conn.CloseWrite()
			}()
			if heard, err := io.ReadAll(conn); string(heard) != said {
				t.Errorf("have %d bytes of %d, %v", len(heard), len(said), err)
			}
			if conn, err := network.Dial(3001); err == nil {
				_ = conn.Close()
				t.Error("a port where nothing listens was reached")
			}
		})
	}
}

// U-06: the ports of the host are not those inside.
func TestTheNetworkInsideIsNotTheHosts(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	network := answering(t, "127.0.0.1:3000")
	port := uint16(listener.Addr().(*net.TCPAddr).Port)
	if conn, err := network.Dial(port); err == nil {
		_ = conn.Close()
		t.Error("a port of the host was reached")
	}
	ports, err := network.Listening()
	if err != nil || slices.Contains(ports, port) {
		t.Errorf("have ports %v, %v", ports, err)
	}
}

// U-06: once the sandbox is gone, nothing is reached and nobody waits.
func TestAnEndedSandboxIsNotReached(t *testing.T) {
	network, err := sandbox.NewNetwork()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = network.Close() }()
	c := shell("exit 0")
	c.Network = network
	if have := run(t, open(t), c); have.Code != 0 {
		t.Fatalf("have %+v", have)
	}
	if conn, err := network.Dial(3000); err == nil {
		_ = conn.Close()
		t.Error("a port of an ended sandbox was reached")
	}
}
