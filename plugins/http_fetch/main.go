// Command handler is the http_fetch plugin: it gets one page of a host that
// the operator listed, and turns it into text.
//
// It promises bounded time, memory and answers on whatever a server sends, and that nothing of the
// operator's goes out. No cookie, no credential and no header but those that the call names is
// sent. Which hosts may be reached is decided by the proxy outside of its sandbox; without one it
// reaches nothing.
package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

func main() {
	if err := plugin.Serve(handler(os.Getenv)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func handler(getenv func(string) string) plugin.Handler {
	f := &fetcher{transport: transport(getenv), working: make(chan struct{}, maxWorking)}
	return plugin.Handler{Tools: map[nacre.ToolName]plugin.ToolFunc{"http_fetch": plugin.Tool(f.fetch)}}
}

// transport goes through the host's proxy, always: nothing is dialled directly,
// local names included.
func transport(getenv func(string) string) *http.Transport {
	return &http.Transport{
		Proxy: func(r *http.Request) (*url.URL, error) {
			name := "HTTPS_PROXY"
			if r.URL.Scheme == "http" {
				name = "HTTP_PROXY"
			}
			address := getenv(name)
			if address == "" {
				return nil, errNoProxy
			}
			return url.Parse(address)
		},
		OnProxyConnectResponse: refusedConnect,
		DisableCompression:     true, // what is decoded is bounded here
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: maxHead,
		ResponseHeaderTimeout:  headTime,
		TLSHandshakeTimeout:    headTime,
	}
}

func refuse(code, format string, values ...any) *plugin.ToolError {
	return &plugin.ToolError{Code: code, Message: fmt.Sprintf(format, values...)}
}

func later(code, format string, values ...any) *plugin.ToolError {
	e := refuse(code, format, values...)
	e.Retriable = true
	return e
}
