package servecmd

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/terminal"
)

type scheduleCommand Commands

// shownTicks is how many ticks `nacre schedule show` tells of.
const shownTicks = 20

func (cmd scheduleCommand) command() *cobra.Command {
	const id = "a schedule's id"
	one := func(name, short string, do func(ctx context.Context, t assembly.Timetable, id string) error) *cobra.Command {
		made := &cobra.Command{
			Use: name + " ID", Short: short, Args: command.OneArgument(id), Example: "  nacre schedule " + name + " task-k3f9abq2xw",
			RunE: func(c *cobra.Command, args []string) error {
				rt, err := cmd.Open(c.Context())
				if err != nil {
					return err
				}
				return do(c.Context(), rt.Timetable, args[0])
			},
		}
		command.Completes(made, cmd.ids)
		return made
	}
	return command.Group("schedule", "tasks for later: agents that are woken by the clock",
		cmd.addCommand(), cmd.listCommand(),
		one("show", "show a schedule and its latest ticks", cmd.showSchedule),
		one("run", "run a schedule now, once, beside its own times", cmd.runSchedule),
		one("pause", "let a schedule rest", cmd.switchSchedule(assembly.Timetable.PauseSchedule)),
		one("resume", "let a paused schedule go on, without what was due meanwhile", cmd.switchSchedule(assembly.Timetable.ResumeSchedule)),
		one("remove", "remove a schedule", func(ctx context.Context, t assembly.Timetable, id string) error {
			if err := t.RemoveSchedule(ctx, id); err != nil {
				return err
			}
			return cmd.tellOf("removed", id)
		}))
}

// ids are the schedules that there are, for completion.
func (cmd scheduleCommand) ids(ctx context.Context) ([]command.Offered, error) {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return nil, err
	}
	list, err := rt.Schedules(ctx, "")
	offered := make([]command.Offered, 0, len(list))
	for _, s := range list {
		offered = append(offered, command.Offered{Word: s.ID, About: whenOf(s) + ", group " + string(s.Group)})
	}
	return offered, err
}

func (cmd scheduleCommand) addCommand() *cobra.Command {
	var n assembly.NewSchedule
	var of string
	c := &cobra.Command{
		Use: "add", Short: "have a task done later", Args: command.NoArguments,
		Long: `Makes a schedule: an agent of the group is woken for the task when it is due, as long as
"nacre serve" runs. Say when in one way: --cron, --every or --at.

A gate is a shell command that runs sealed in the group's workspace before the agent is
woken: exit 0 wakes it and tells it what the command printed, 1 is nothing to do.`,
		Example: `  nacre schedule add --cron "0 6 * * mon-fri" --zone Europe/Berlin --prompt "Summarise the new mail"
  nacre schedule add --every 15m --gate "./build-is-red" --prompt "Say on the local channel what broke"
  nacre schedule add --at 17:00 --group family --prompt "Remind Ada to call the bank"`,
		RunE: func(c *cobra.Command, _ []string) error {
			n.Group = nacre.Group(of)
			return cmd.addSchedule(c.Context(), n)
		},
	}
	flags := c.Flags()
	flags.StringVar(&of, "group", "", "whose task it is (default main)")
	flags.StringVar(&n.Cron, "cron", "", "minute hour day month weekday, such as \"0 6 * * mon-fri\"")
	flags.StringVar(&n.Every, "every", "", "an interval of a minute or more, such as 15m")
	flags.StringVar(&n.At, "at", "", "once: such as 2026-11-22T17:00:00+01:00, or 17:00 for the next time it is five")
	flags.StringVar(&n.Zone, "zone", "", "the time zone, such as Europe/Berlin (default the machine's)")
	flags.StringVar(&n.Prompt, "prompt", "", "what is to be done")
	flags.StringVar(&n.Gate, "gate", "", "a command that says whether there is something to do")
	flags.StringVar(&n.Missed, "missed", "", "what becomes of missed runs: run-once or skip (default run-once)")
	flags.StringVar(&n.Session, "session", "", "fresh, or resume to go on from the run before (default fresh)")
	return c
}

func (cmd scheduleCommand) addSchedule(ctx context.Context, n assembly.NewSchedule) error {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	s, err := rt.AddSchedule(ctx, n)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(s)
	}
	p := cmd.Printer(cmd.Stdout)
	p.Field("added", "%s · group %s", s.ID, s.Group)
	p.Field("when", "%s", whenOf(s))
	p.Field("next", "%s", moment(s.Next))
	return nil
}

func (cmd scheduleCommand) listCommand() *cobra.Command {
	var of string
	c := &cobra.Command{
		Use: "list", Short: "list schedules, with the next run and the last outcome", Args: command.NoArguments, Example: "  nacre schedule list --group family",
		RunE: func(c *cobra.Command, _ []string) error { return cmd.listSchedules(c.Context(), of) },
	}
	c.Flags().StringVar(&of, "group", "", "only this group's")
	return c
}

func (cmd scheduleCommand) listSchedules(ctx context.Context, of string) error {
	if of != "" {
		if _, err := nacre.ParseGroup(of); err != nil {
			return command.UsageOf(err)
		}
	}
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	list, err := rt.Schedules(ctx, nacre.Group(of))
	if err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(list)
	}
	rows := make([][]string, 0, len(list))
	for _, s := range list {
		last := "–"
		if s.Last != nil {
			last = s.Last.State
		}
		rows = append(rows, []string{s.ID, string(s.Group), whenOf(s), moment(s.Next), last, terminal.Summary(s.Prompt)})
	}
	cmd.Printer(cmd.Stdout).Table([]string{"SCHEDULE", "GROUP", "WHEN", "NEXT", "LAST", "TASK"}, rows)
	return nil
}

func (cmd scheduleCommand) showSchedule(ctx context.Context, t assembly.Timetable, id string) error {
	s, ticks, err := t.Schedule(ctx, id, shownTicks)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(struct {
			assembly.ScheduleStatus
			Ticks []assembly.TickStatus `json:"ticks"`
		}{s, ticks})
	}
	p := cmd.Printer(cmd.Stdout)
	p.Field("schedule", "%s · group %s", s.ID, s.Group)
	p.Field("when", "%s", whenOf(s))
	p.Field("next", "%s", moment(s.Next))
	p.Field("missed", "%s", s.Missed)
	p.Field("session", "%s", s.Session)
	if len(s.Gate) > 0 {
		p.Field("gate", "%s", strings.Join(s.Gate, " "))
	}
	p.Field("made by", "%s, %s, %s", s.By, s.Label, s.Created.Format(time.RFC3339))
	p.Prose("task", s.Prompt)
	rows := make([][]string, 0, len(ticks))
	for _, t := range ticks {
		at := t.At.Format(time.RFC3339)
		if t.Extra {
			at += " (asked for)"
		}
		rows = append(rows, []string{at, t.State, string(t.Session), terminal.Summary(t.Outcome)})
	}
	if len(rows) > 0 {
		p.Table([]string{"TICK", "STATE", "SESSION", "OUTCOME"}, rows)
	}
	return nil
}

func (cmd scheduleCommand) runSchedule(ctx context.Context, t assembly.Timetable, id string) error {
	tick, err := t.RunSchedule(ctx, id)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(tick)
	}
	cmd.Printer(cmd.Stdout).Field("asked", "session %s will run it; nacre schedule show %s tells how it went", tick.Session, id)
	return nil
}

// switchSchedule pauses a schedule or lets it go on, and tells how it is then.
func (cmd scheduleCommand) switchSchedule(do func(assembly.Timetable, context.Context, string) error) func(context.Context, assembly.Timetable, string) error {
	return func(ctx context.Context, t assembly.Timetable, id string) error {
		if err := do(t, ctx, id); err != nil {
			return err
		}
		s, _, err := t.Schedule(ctx, id, 0)
		if err != nil {
			return err
		}
		if cmd.JSON {
			return cmd.PrintJSON(s)
		}
		cmd.Printer(cmd.Stdout).Field(s.ID, "%s · next %s", whenOf(s), moment(s.Next))
		return nil
	}
}

// tellOf says what was done to what.
func (cmd scheduleCommand) tellOf(done, what string) error {
	if cmd.JSON {
		return cmd.PrintJSON(map[string]string{done: what})
	}
	cmd.Printer(cmd.Stdout).Field(done, "%s", what)
	return nil
}

func whenOf(s assembly.ScheduleStatus) string {
	text := s.Value
	switch s.Kind {
	case "interval":
		text = "every " + s.Value
	case "cron":
		text += " " + s.Zone
	}
	if !s.Enabled {
		text += " (paused)"
	}
	return text
}

// moment is a time for people; nil is none.
func moment(t *time.Time) string {
	if t == nil {
		return "–"
	}
	return t.Format("Mon 2006-01-02 15:04:05 -07:00")
}
