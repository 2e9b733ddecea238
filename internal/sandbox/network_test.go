package sandbox_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/sandbox/loopback"
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

// answering starts a sandbox in which a program listens. It is nil where the backend says
// that it hands out no sockets, as one whose kernel is not this machine's.
func answering(t *testing.T, b sandbox.Backend, at string) *loopback.Network {
	t.Helper()
	network, err := loopback.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = network.Close() })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stdout, stdoutWrite := pipe(t)
	c := sealed(b, "")
	c.Argv = []string{"/opt/answers"}
	c.Network, c.Stdout, c.Stderr = network, stdoutWrite, stdoutWrite
	c.Posture.Mounts = append(c.Posture.Mounts, nacre.Mount{Kind: nacre.BindReadOnly, Source: self, Target: "/opt/answers"})
	c.Posture.Env = append(c.Posture.Env, serveAt+"="+at)
	p, err := b.Start(t.Context(), c)
	_ = stdoutWrite.Close()
	if errors.Is(err, loopback.ErrNone) && (hasOwnKernel(b) || isApart(b)) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Fatalf("have %q, %v", line, err)
	}
	return network
}

// U-06: the host reaches what listens inside, by IPv4 and IPv6, with each backend, and
// each direction of a connection ends by itself.
func TestTheHostReachesAPortInside(t *testing.T) {
	onEach(t, func(t *testing.T, b sandbox.Backend) {
		for _, at := range []string{"127.0.0.1:3000", "0.0.0.0:3000", "[::1]:3000", "[::]:3000"} {
			t.Run(at, func(t *testing.T) {
				if network := answering(t, b, at); network != nil {
					isReached(t, network)
				}
			})
		}
	})
}

// isReached speaks to what listens on port 3000 inside.
func isReached(t *testing.T, network *loopback.Network) {
	t.Helper()
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
}

// U-06: the ports of the host are not those inside.
func TestTheNetworkInsideIsNotTheHosts(t *testing.T) {
	onEach(t, func(t *testing.T, b sandbox.Backend) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = listener.Close() }()
		network := answering(t, b, "127.0.0.1:3000")
		if network == nil {
			return
		}
		port := uint16(listener.Addr().(*net.TCPAddr).Port)
		if conn, err := network.Dial(port); err == nil {
			_ = conn.Close()
			t.Error("a port of the host was reached")
		}
		ports, err := network.Listening()
		if err != nil || slices.Contains(ports, port) {
			t.Errorf("have ports %v, %v", ports, err)
		}
	})
}

// U-06: once the sandbox is gone, nothing is reached and nobody waits.
func TestAnEndedSandboxIsNotReached(t *testing.T) {
	onEach(t, func(t *testing.T, b sandbox.Backend) {
		network, err := loopback.New()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = network.Close() }()
		c := sealed(b, "exit 0")
		c.Network = network
		if hasOwnKernel(b) || isApart(b) {
			if _, err := b.Start(t.Context(), c); !errors.Is(err, loopback.ErrNone) {
				t.Errorf("have %v", err)
			}
			return
		}
		if have := run(t, b, c); have.Code != 0 {
			t.Fatalf("have %+v", have)
		}
		if conn, err := network.Dial(3000); err == nil {
			_ = conn.Close()
			t.Error("a port of an ended sandbox was reached")
		}
	})
}
