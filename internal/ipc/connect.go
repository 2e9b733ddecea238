package ipc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre"
)

const (
	// connectFlag leads standard input and output to a host, as ssh's ProxyCommand does.
	connectFlag = "--connect"
	// maxRefusal is how much of a refusal is shown, in bytes.
	maxRefusal = 8 << 10
)

// connectThrough asks the session's proxy for a host, and passes bytes both ways once it
// agreed. What the proxy says otherwise goes to standard error.
func connectThrough(proxy, target string, s Streams) int {
	if err := tunnel(proxy, target, s); err != nil {
		_, _ = fmt.Fprintf(s.Err, "nacre: %v\n", err) // there is nowhere else to say it
		return exitError
	}
	return 0
}

func tunnel(proxy, target string, s Streams) error {
	if strings.ContainsAny(target, " \t\r\n") {
		return errors.New("name HOST:PORT")
	}
	conn, err := net.Dial("tcp", proxy) //nolint:noctx // it ends with the program that began it
	if err != nil {
		return errors.New("the session's proxy does not answer: a check has no way out")
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target); err != nil {
		return err
	}
	answer := bufio.NewReaderSize(conn, maxRefusal)
	if err := agreed(answer); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(conn, s.In) // its end is the host's to see
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(s.Out, answer)
	return err
}

// agreed reads the proxy's answer up to the first byte of the host's.
func agreed(answer *bufio.Reader) error {
	status, err := answer.ReadSlice('\n')
	if err != nil {
		return errors.New("the session's proxy gave no answer")
	}
	accepted := strings.HasPrefix(string(status), "HTTP/1.1 200 ")
	for {
		line, err := answer.ReadSlice('\n')
		if err != nil {
			return errors.New("the session's proxy gave half an answer")
		}
		if len(strings.TrimSpace(string(line))) == 0 {
			break
		}
	}
	if accepted {
		return nil
	}
	why, _ := io.ReadAll(io.LimitReader(answer, maxRefusal)) // what came is shown
	return errors.New(strings.TrimSpace(string(why)))
}

// egressProxy is where the session's proxy is, inside.
func egressProxy() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(nacre.EgressPort)) }
