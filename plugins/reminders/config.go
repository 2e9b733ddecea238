package main

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

const (
	storeFile   = "file"
	storeCalDAV = "caldav"
)

// config is the operator's [plugins.reminders].
type config struct {
	DefaultList string `json:"default_list"`
	Store       string `json:"store"`
	URL         string `json:"url"`
	User        string `json:"user"`
	// Calendar is the name or the path of the calendar that is the default list.
	Calendar string `json:"calendar"`
	// Groups may use the account on the server: it has no groups of its own.
	Groups []nacre.Group `json:"groups"`
	// CA is PEM certificates to trust besides the system's.
	CA string `json:"ca"`

	server *url.URL
	roots  *x509.CertPool // nil for the system's
}

func readConfig(raw json.RawMessage) (c config, err error) {
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, errors.New("the configuration is not of the form that config_schema says")
	}
	if c.DefaultList == "" {
		c.DefaultList = fallbackList
	}
	switch c.Store {
	case "", storeFile:
		if c.URL != "" || c.User != "" || c.Calendar != "" || c.CA != "" || c.Groups != nil {
			return c, errors.New(`url, user, calendar, groups and ca are for a server: add store = "caldav"`)
		}
		return c, nil
	case storeCalDAV:
	default:
		return c, fmt.Errorf("store: %.40q is neither file nor caldav", c.Store)
	}
	if c.server, err = url.Parse(c.URL); err != nil || c.server.Scheme != "https" || c.server.Host == "" ||
		c.server.User != nil || c.server.RawQuery != "" || c.server.Fragment != "" {
		return c, errors.New("url: use an https address such as https://dav.example.com/, without a password in it")
	}
	if c.server.Path == "" {
		c.server.Path = "/"
	}
	if c.User == "" {
		return c, errors.New("user: name the account on the server")
	}
	if len(c.Groups) == 0 {
		c.Groups = []nacre.Group{"main"}
	}
	if c.CA != "" {
		if c.roots, err = x509.SystemCertPool(); err != nil {
			c.roots = x509.NewCertPool()
		}
		if !c.roots.AppendCertsFromPEM([]byte(c.CA)) {
			return c, errors.New("ca: no certificate in PEM form")
		}
	}
	return c, nil
}

// allows keeps groups apart: an account is that of the groups the operator names.
func (c config) allows(group nacre.Group) error {
	if slices.Contains(c.Groups, group) {
		return nil
	}
	return &plugin.ToolError{Code: "NOT_CONFIGURED", Message: fmt.Sprintf(
		"The calendar account is not for group %.40q: its operator can add it to groups in [plugins.reminders]", group)}
}
