// Command handler is the reminders plugin: it keeps each group's reminders in
// a file of the group's own, in the plugin's data directory. The name "Apple
// Reminders" in the manifest is the seed's; nothing leaves this machine.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

const fallbackList = "Personal"

func main() {
	if err := plugin.Serve(handler()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func handler() plugin.Handler {
	var b book
	return plugin.Handler{
		Initialize: func(_ context.Context, s plugin.Setup) error {
			b.dir, b.defaultList = s.DataDir, fallbackList
			var config struct {
				DefaultList string `json:"default_list"`
			}
			if err := json.Unmarshal(s.Config, &config); err != nil {
				return err
			}
			if config.DefaultList != "" {
				b.defaultList = config.DefaultList
			}
			return nil
		},
		Tools: map[nacre.ToolName]plugin.ToolFunc{
			"create_reminder":   plugin.Tool(b.create),
			"list_reminders":    plugin.Tool(b.list),
			"complete_reminder": plugin.Tool(b.complete),
			"delete_reminder":   plugin.Tool(b.delete),
		},
	}
}

type newReminder struct{ Title, Due, List string }

type whichList struct {
	List             string
	IncludeCompleted bool `json:"include_completed"`
}

type whichReminder struct {
	ID string `json:"reminder_id"`
}

func (b *book) create(_ context.Context, r *plugin.Request, args newReminder) (any, error) {
	if args.List == "" {
		args.List = b.defaultList
	}
	var id string
	err := b.change(r.Group, func(p *page) error {
		if len(p.Reminders) >= maxReminders {
			return &plugin.ToolError{Code: "FULL", Message: fmt.Sprintf("There are %d reminders already: delete some first", maxReminders)}
		}
		if len(args.List) > maxListName {
			return &plugin.ToolError{Code: "LIST_NAME", Message: fmt.Sprintf("The name of a list has at most %d bytes", maxListName)}
		}
		p.Last++
		id = fmt.Sprintf("R-%d", p.Last)
		p.Reminders = append(p.Reminders, reminder{
			ID: id, Title: args.Title, Due: args.Due, List: args.List, Created: time.Now().UTC().Format(time.RFC3339),
		})
		return nil
	})
	return map[string]string{"reminder_id": id, "status": "created"}, err
}

func (b *book) list(_ context.Context, r *plugin.Request, args whichList) (any, error) {
	if args.List == "" {
		args.List = b.defaultList
	}
	found := []reminder{}
	err := b.read(r.Group, func(p page) {
		for _, rem := range p.Reminders {
			if rem.List == args.List && (args.IncludeCompleted || !rem.Completed) {
				found = append(found, rem)
			}
		}
	})
	return map[string]any{"list": args.List, "reminders": found}, err
}

func (b *book) complete(_ context.Context, r *plugin.Request, args whichReminder) (any, error) {
	err := b.change(r.Group, func(p *page) error {
		i, err := p.find(args.ID)
		if err == nil {
			p.Reminders[i].Completed = true
		}
		return err
	})
	return map[string]string{"reminder_id": args.ID, "status": "completed"}, err
}

func (b *book) delete(_ context.Context, r *plugin.Request, args whichReminder) (any, error) {
	err := b.change(r.Group, func(p *page) error {
		i, err := p.find(args.ID)
		if err == nil {
			p.Reminders = append(p.Reminders[:i], p.Reminders[i+1:]...)
		}
		return err
	})
	return map[string]string{"reminder_id": args.ID, "status": "deleted"}, err
}
