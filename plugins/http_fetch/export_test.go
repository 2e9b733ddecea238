package main

import "net/url"

// Handler fetches through the proxy that the environment names.
var Handler = handler

// Convert turns a page into at most limit bytes of markdown.
func Convert(body []byte, contentType string, limit int) string {
	p := page{Type: contentType}
	if err := p.asText(body, limit, &url.URL{Scheme: "http", Host: "a.test"}, true); err != nil {
		return ""
	}
	return p.Content
}
