// Command handler is the reminders plugin. Reminders are the VTODOs of iCalendar files, one file
// for each list of each group, in the plugin's data directory. They may also be those of a CalDAV
// server that the operator names. The words "Apple Reminders" in the manifest are the seed's.
//
// It promises that what other programs wrote stays as it is but for what was asked, and that
// nothing is written over a change of somebody else. One group never sees another's. It does not
// notify anybody when a reminder is due.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
	_ "time/tzdata" // the sandbox need not have the database

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

const (
	fallbackList = "Personal"
	verifyTime   = 8 * time.Second // below what the host waits, so that the reason gets there
)

func main() {
	if err := plugin.Serve(handler()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A book is the reminders of one group.
type book interface {
	list(ctx context.Context, name string) ([]reminder, error)
	create(ctx context.Context, d draft) (id string, err error)
	complete(ctx context.Context, id string) error
	remove(ctx context.Context, id string) error
}

// reminders carries out the tools.
type reminders struct {
	config  config
	dataDir string
}

// secrets reads a credential; the host's request and setup both do.
type secrets func(ctx context.Context, key string) (nacre.Secret, error)

func handler() plugin.Handler {
	var p reminders
	return plugin.Handler{
		Initialize: p.initialize,
		Verify:     p.verify,
		Tools: map[nacre.ToolName]plugin.ToolFunc{
			"create_reminder":   plugin.Tool(p.create),
			"list_reminders":    plugin.Tool(p.list),
			"complete_reminder": plugin.Tool(p.complete),
			"delete_reminder":   plugin.Tool(p.remove),
		},
	}
}

// initialize looks at a server at once: a wrong password is better known
// before the first reminder than after it. Files are looked at when they are used.
func (p *reminders) initialize(ctx context.Context, s plugin.Setup) (err error) {
	p.dataDir = s.DataDir
	if p.config, err = readConfig(s.Config); err != nil {
		return &plugin.ToolError{Code: plugin.CategoryConfig, Message: err.Error()}
	}
	if p.config.Store != storeCalDAV {
		return nil
	}
	return p.verify(ctx, s)
}

func (p *reminders) verify(ctx context.Context, s plugin.Setup) error {
	if p.config.Store != storeCalDAV {
		return verifyFiles(p.dataDir)
	}
	ctx, cancel := context.WithTimeout(ctx, verifyTime)
	defer cancel()
	b, err := p.server(ctx, s.Credential)
	if err == nil {
		_, err = b.calendars(ctx)
	}
	return category(err)
}

// category makes one of the host's categories of an error (D-23).
func category(err error) error {
	var known *plugin.ToolError
	if !errors.As(err, &known) {
		return err
	}
	switch known.Code {
	case codeAuth, plugin.CategoryConfig, codeNetwork:
		return err
	case codeServer, codeBusy:
		return &plugin.ToolError{Code: codeNetwork, Message: known.Message, Retriable: true}
	}
	return &plugin.ToolError{Code: plugin.CategoryConfig, Message: known.Message}
}

// within opens the group's book for one call.
func (p *reminders) within(ctx context.Context, r *plugin.Request, do func(book) error) error {
	if p.config.Store == storeCalDAV {
		if err := p.config.allows(r.Group); err != nil {
			return err
		}
		b, err := p.server(ctx, r.Credential)
		if err != nil {
			return err
		}
		return do(b)
	}
	b, unlock, err := openFiles(ctx, p.dataDir, r.Group, time.Now)
	if err != nil {
		return err
	}
	defer unlock()
	return do(b)
}

type newReminder struct{ Title, Due, List string }

type whichList struct {
	List             string
	IncludeCompleted bool `json:"include_completed"`
}

type whichReminder struct {
	ID string `json:"reminder_id"`
}

func (p *reminders) listOr(name string) string {
	if name == "" {
		return p.config.DefaultList
	}
	return name
}

func (p *reminders) create(ctx context.Context, r *plugin.Request, args newReminder) (any, error) {
	d, err := newDraft(args.Title, args.Due, p.listOr(args.List))
	if err != nil {
		return nil, err
	}
	var id string
	err = p.within(ctx, r, func(b book) error {
		id, err = b.create(ctx, d)
		return err
	})
	return map[string]string{"reminder_id": id, "status": "created"}, err
}

func (p *reminders) list(ctx context.Context, r *plugin.Request, args whichList) (any, error) {
	name := p.listOr(args.List)
	if err := checkList(name); err != nil {
		return nil, err
	}
	var all []reminder
	err := p.within(ctx, r, func(b book) (err error) {
		all, err = b.list(ctx, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer(name, all, args.IncludeCompleted)
}

// answer holds the reminders by due time, and so many that the host takes it.
func answer(list string, all []reminder, completed bool) (any, error) {
	a := struct {
		List      string     `json:"list"`
		Reminders []reminder `json:"reminders"`
		// More is how many there are besides.
		More int `json:"more,omitempty"`
	}{list, []reminder{}, 0}
	byDue(all)
	size := 0
	for _, r := range all {
		if r.Completed && !completed {
			continue
		}
		raw, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		if size += len(raw) + 1; size > maxAnswer {
			a.More++
		} else {
			a.Reminders = append(a.Reminders, r)
		}
	}
	return a, nil
}

func (p *reminders) complete(ctx context.Context, r *plugin.Request, args whichReminder) (any, error) {
	err := p.within(ctx, r, func(b book) error { return b.complete(ctx, args.ID) })
	return map[string]string{"reminder_id": args.ID, "status": "completed"}, err
}

func (p *reminders) remove(ctx context.Context, r *plugin.Request, args whichReminder) (any, error) {
	err := p.within(ctx, r, func(b book) error { return b.remove(ctx, args.ID) })
	return map[string]string{"reminder_id": args.ID, "status": "deleted"}, err
}
