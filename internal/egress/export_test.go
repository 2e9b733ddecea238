package egress

import (
	"bufio"
	"io"
)

// ReadHello is readHello for the fuzz target.
func ReadHello(r io.Reader, host string) ([]byte, error) {
	return readHello(bufio.NewReader(r), host)
}
