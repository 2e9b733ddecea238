package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/emersion/go-webdav/caldav"

	"github.com/nacre-dev/nacre/plugin"
)

const calendarType = "text/calendar; charset=utf-8"

// davBook is the reminders of a CalDAV account (RFC 4791): a list is a calendar
// that takes VTODOs, a reminder an object in it. Every change quotes the ETag
// of what was read, so that nobody's change is written over.
type davBook struct {
	dav
	config config
	now    func() time.Time
}

// A list is a calendar on the server.
type list struct {
	name string
	path string
}

// An object is a calendar object as it was read.
type object struct {
	url      *url.URL
	etag     string
	calendar *component
	list     string
}

// calendars are the lists of the account. A calendar that is configured by its path
// is the only one.
func (b *davBook) calendars(ctx context.Context) ([]list, error) {
	if strings.HasPrefix(b.config.Calendar, "/") {
		return []list{{b.config.DefaultList, b.config.Calendar}}, b.exists(ctx, b.config.Calendar)
	}
	client, err := caldav.NewClient(b, b.base.String())
	if err != nil {
		return nil, err
	}
	principal, err := client.FindCurrentUserPrincipal(ctx)
	if err != nil {
		return nil, notDAV(err)
	}
	home, err := client.FindCalendarHomeSet(ctx, principal)
	if err != nil {
		return nil, notDAV(err)
	}
	found, err := client.FindCalendars(ctx, home)
	if err != nil {
		return nil, notDAV(err)
	}
	var lists []list
	for _, c := range found {
		if len(c.SupportedComponentSet) == 0 || slices.Contains(c.SupportedComponentSet, "VTODO") {
			lists = append(lists, list{c.Name, c.Path})
		}
	}
	if len(lists) == 0 || len(lists) > maxLists {
		return nil, &plugin.ToolError{Code: plugin.CategoryConfig, Message: fmt.Sprintf(
			"The account has %d calendars that take reminders; 1 to %d will do", len(lists), maxLists)}
	}
	return lists, nil
}

// notDAV keeps what a library says of an answer to ourselves.
func notDAV(err error) error {
	var known *plugin.ToolError
	if errors.As(err, &known) {
		return err
	}
	fmt.Fprintf(os.Stderr, "%.300v\n", err)
	return &plugin.ToolError{Code: plugin.CategoryConfig, Message: "The server at url does not answer as a CalDAV server does: check url in [plugins.reminders]"}
}

// exists asks for nothing but whether something is there.
func (b *davBook) exists(ctx context.Context, path string) error {
	const nothing = `<?xml version="1.0"?><propfind xmlns="DAV:"><prop><resourcetype/></prop></propfind>`
	response, err := b.send(ctx, "PROPFIND", b.base.ResolveReference(&url.URL{Path: path}), nothing, http.Header{
		"Depth": {"0"}, "Content-Type": {"application/xml; charset=utf-8"}})
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// find is the calendar of a list: the one of that name, or for the default
// list the one that is configured.
func (b *davBook) find(ctx context.Context, name string) (list, error) {
	all, err := b.calendars(ctx)
	if err != nil {
		return list{}, err
	}
	wanted := []string{name}
	if name == b.config.DefaultList || name == fallbackList {
		wanted = []string{b.config.Calendar, name}
	}
	for _, want := range wanted {
		for _, l := range all {
			if want != "" && (l.name == want || l.path == want) {
				return l, nil
			}
		}
	}
	names := make([]string, len(all))
	for i, l := range all {
		names[i] = fmt.Sprintf("%.60q", l.name)
	}
	return list{}, &plugin.ToolError{Code: "NO_LIST", Message: fmt.Sprintf("There is no list %.60q on the calendar server; there are %s",
		name, strings.Join(names[:min(len(names), 10)], ", "))}
}

func (b *davBook) list(ctx context.Context, name string) ([]reminder, error) {
	l, err := b.find(ctx, name)
	if err != nil {
		return nil, err
	}
	objects, err := b.query(ctx, l, "")
	if err != nil {
		return nil, err
	}
	var found []reminder
	for _, o := range objects {
		found = append(found, o.calendar.reminders(name, func(uid string) string { return uid })...)
	}
	return found, nil
}

// create makes an object that was not there. Where no answer came back, it
// looks whether it is there: a reminder that is made twice is one too many.
func (b *davBook) create(ctx context.Context, d draft) (string, error) {
	l, err := b.find(ctx, d.list)
	if err != nil {
		return "", err
	}
	id := strings.ToLower(rand.Text())
	calendar := newCalendar("")
	inner := calendar.children("VCALENDAR")[0]
	inner.parts = append(inner.parts, part{child: d.todo(id, b.now())})
	to := b.base.ResolveReference(&url.URL{Path: strings.TrimSuffix(l.path, "/") + "/" + id + ".ics"})
	err = b.put(ctx, to, calendar, http.Header{"If-None-Match": {"*"}})
	var known *plugin.ToolError
	if errors.As(err, &known) && known.Retriable && known.Code != codeBusy {
		return id, b.look(ctx, to)
	}
	return id, err
}

// look tells whether an object whose writing got no good answer is there.
func (b *davBook) look(ctx context.Context, at *url.URL) error {
	response, err := b.send(ctx, http.MethodGet, at, "", nil)
	if err == nil {
		return response.Body.Close()
	}
	var known *plugin.ToolError
	if errors.As(err, &known) && known.Code == "NOT_FOUND" {
		return &plugin.ToolError{Code: codeServer, Message: "The calendar server did not keep the reminder: try again", Retriable: true}
	}
	return &plugin.ToolError{Code: codeNetwork, Message: "The calendar server did not answer: it may have kept the reminder. List the reminders before you make it again"}
}

func (b *davBook) complete(ctx context.Context, id string) error {
	o, todo, err := b.one(ctx, id)
	if err != nil {
		return err
	}
	changed, err := todo.complete(b.now())
	if err != nil || !changed {
		return err
	}
	return b.put(ctx, o.url, o.calendar, http.Header{"If-Match": {o.etag}})
}

func (b *davBook) remove(ctx context.Context, id string) error {
	o, _, err := b.one(ctx, id)
	if err != nil {
		return err
	}
	response, err := b.send(ctx, http.MethodDelete, o.url, "", http.Header{"If-Match": {o.etag}})
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// one is the reminder of that id, in whichever list it is, with an ETag that changes may quote.
func (b *davBook) one(ctx context.Context, id string) (object, *component, error) {
	if id == "" || len(id) > maxID {
		return object{}, nil, exactlyOne(id, 0)
	}
	lists, err := b.calendars(ctx)
	if err != nil {
		return object{}, nil, err
	}
	var in object
	var found []*component
	for _, l := range lists {
		objects, err := b.query(ctx, l, id)
		if err != nil {
			return object{}, nil, err
		}
		for _, o := range objects {
			for _, todo := range o.calendar.todos(id) {
				in, found = o, append(found, todo)
			}
		}
	}
	if err := exactlyOne(id, len(found)); err != nil {
		return object{}, nil, err
	}
	if !strings.HasPrefix(in.etag, `"`) {
		return object{}, nil, &plugin.ToolError{Code: codeServer,
			Message: "The calendar server gives no strong ETag, so that a change might overwrite another: nothing was changed"}
	}
	return in, found[0], nil
}

// query asks for the VTODOs of a calendar: all, or those of one UID. What is
// no calendar object is left out, and told to whoever reads the log.
func (b *davBook) query(ctx context.Context, l list, uid string) ([]object, error) {
	response, err := b.send(ctx, "REPORT", b.base.ResolveReference(&url.URL{Path: l.path}), reportFor(uid), http.Header{
		"Depth": {"1"}, "Content-Type": {"application/xml; charset=utf-8"}})
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // only read
	var answer multistatus
	if err := xml.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, notDAV(err)
	}
	var objects []object
	for _, r := range answer.Responses {
		o, err := b.readObject(response.Request.URL, r)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%.200q: %v\n", r.Href, err)
			continue
		}
		o.list = l.name
		objects = append(objects, o)
	}
	return objects, nil
}

// multistatus is what of RFC 4918 a query's answer needs.
type multistatus struct {
	XMLName   xml.Name      `xml:"DAV: multistatus"`
	Responses []davResponse `xml:"DAV: response"`
}

type davResponse struct {
	Href  string `xml:"DAV: href"`
	Props []struct {
		ETag string `xml:"DAV: getetag"`
		Data string `xml:"urn:ietf:params:xml:ns:caldav calendar-data"`
	} `xml:"DAV: propstat>prop"`
}

func (b *davBook) readObject(asked *url.URL, r davResponse) (object, error) {
	at, err := asked.Parse(strings.TrimSpace(r.Href))
	if err != nil {
		return object{}, err
	}
	o := object{url: at}
	for _, p := range r.Props {
		if p.Data == "" {
			continue
		}
		o.etag = strings.TrimSpace(p.ETag)
		o.calendar, err = parseCalendar(p.Data)
		return o, err
	}
	return o, errors.New("no calendar data in it")
}

func reportFor(uid string) string {
	filter := ""
	if uid != "" {
		var text bytes.Buffer
		_ = xml.EscapeText(&text, []byte(uid)) // a buffer takes everything
		filter = `<C:prop-filter name="UID"><C:text-match>` + text.String() + `</C:text-match></C:prop-filter>`
	}
	return `<?xml version="1.0" encoding="utf-8"?><C:calendar-query xmlns="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav">` +
		`<prop><getetag/><C:calendar-data/></prop><C:filter><C:comp-filter name="VCALENDAR"><C:comp-filter name="VTODO">` +
		filter + `</C:comp-filter></C:comp-filter></C:filter></C:calendar-query>`
}

func (b *davBook) put(ctx context.Context, to *url.URL, calendar *component, header http.Header) error {
	header.Set("Content-Type", calendarType)
	response, err := b.send(ctx, http.MethodPut, to, calendar.String(), header)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func (b *davBook) send(ctx context.Context, method string, to *url.URL, body string, header http.Header) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, to.String(), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for key, values := range header {
		r.Header[key] = values
	}
	return b.Do(r)
}
