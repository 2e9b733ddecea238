package main

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

const maxAddress = 2048 // bytes of a URL

// parseAddress reads a URL that may be asked for, with its host in lower-case
// ASCII. The proxy decides about the host; what can never be allowed is said here.
func parseAddress(s string) (*url.URL, error) {
	if len(s) > maxAddress {
		return nil, refuse("URL", "A URL has at most %d bytes", maxAddress)
	}
	u, err := url.Parse(s)
	if err != nil || u.Opaque != "" || strings.ContainsAny(s, "\\ \t\r\n") {
		return nil, refuse("URL", "That is no URL: write one such as https://example.com/page")
	}
	if u.Scheme != "https" && u.Scheme != "http" {
		return nil, refuse("SCHEME", "Only https:// and http:// are fetched")
	}
	if u.User != nil {
		return nil, refuse("USERINFO", "A URL must not hold a user or a password")
	}
	host, err := hostName(u.Hostname())
	if err != nil {
		return nil, err
	}
	port := u.Port()
	if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || n == 0) || port == "" && strings.HasSuffix(u.Host, ":") {
		return nil, refuse("URL", "The port is a number from 1 to 65535")
	}
	if u.Host = host; port != "" {
		u.Host += ":" + port
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// hostName refuses addresses and names that only this machine or its network knows.
func hostName(host string) (string, error) {
	if host == "" {
		return "", refuse("URL", "The URL names no host")
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return "", addressError(a.Unmap())
	}
	name, err := idna.Lookup.ToASCII(strings.TrimSuffix(host, "."))
	if err != nil || name == "" || len(name) > 253 {
		return "", refuse("URL", "%.80q is no name of a host", host)
	}
	name = strings.ToLower(name)
	if a, err := netip.ParseAddr(name); err == nil { // full-width digits and the like
		return "", addressError(a.Unmap())
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	if last[0] >= '0' && last[0] <= '9' { // 127.1, 0x7f000001, 2130706433: no top-level name begins with a digit
		return "", refuse("ADDRESS", "Addresses are not fetched, in any spelling: name the host")
	}
	switch last {
	case "localhost", "local", "internal", "localdomain", "lan", "home", "intranet", "onion":
		return "", refuse("PRIVATE", "%s is a name of this machine or its own network: it cannot be fetched", name)
	}
	if !strings.Contains(name, ".") {
		return "", refuse("PRIVATE", "%s is a name of this machine or its own network: it cannot be fetched", name)
	}
	return name, nil
}

func addressError(a netip.Addr) error {
	if a.IsGlobalUnicast() && !a.IsPrivate() {
		return refuse("ADDRESS", "Addresses are not fetched: name the host")
	}
	return refuse("PRIVATE", "%s is an address of this machine or its own network: it cannot be fetched", a)
}

// hostPort is what an operator allows.
func hostPort(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	if u.Scheme == "http" {
		return u.Host + ":80/http"
	}
	return u.Host + ":443"
}
