package ports

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxPublished is how many ports a session publishes at most, whoever names them: a
// program that listens on a thousand ports publishes no more.
const MaxPublished = 16

// auto asks for every port on which something begins to listen inside.
const auto = "auto"

// Publication is a port inside, and the one of this machine that leads to it.
type Publication struct{ Host, Inside uint16 }

// Request is what a session publishes. The zero value is nothing.
type Request struct {
	Ports []Publication
	// Auto publishes what begins to listen inside, at ports that the kernel chooses:
	// what runs inside must not choose which port of this machine it answers on.
	Auto bool
}

// Parse reads what --publish names: PORT, PORT:INSIDE, or auto.
func Parse(words []string) (Request, error) {
	var r Request
	taken := map[uint16]bool{}
	for _, word := range words {
		if word == auto {
			r.Auto = true
			continue
		}
		p, err := parse(word)
		if err != nil {
			return Request{}, err
		}
		if taken[p.Host] {
			return Request{}, fmt.Errorf("--publish %s: port %d of this machine is named twice", word, p.Host)
		}
		taken[p.Host] = true
		r.Ports = append(r.Ports, p)
	}
	if len(r.Ports) > MaxPublished {
		return Request{}, fmt.Errorf("--publish names %d ports: a session publishes %d at most", len(r.Ports), MaxPublished)
	}
	return r, nil
}

// Nothing reports whether there is nothing to publish.
func (r Request) Nothing() bool { return len(r.Ports) == 0 && !r.Auto }

func parse(word string) (Publication, error) {
	host, within, two := strings.Cut(word, ":")
	if !two {
		within = host
	}
	var p Publication
	var err error
	if p.Host, err = number(host); err == nil {
		p.Inside, err = number(within)
	}
	if err != nil {
		return Publication{}, fmt.Errorf("--publish %.40q: write PORT, PORT:INSIDE or auto, each port from 1 to 65535; it is always on the loopback of this machine", word)
	}
	return p, nil
}

func number(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err == nil && (n == 0 || text != strconv.FormatUint(n, 10)) {
		err = strconv.ErrRange
	}
	return uint16(n), err
}
