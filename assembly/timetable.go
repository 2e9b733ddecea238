package assembly

import (
	"context"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/scheduling"
)

// Timetable is an installation's schedules.
type Timetable struct{ inst *installation.Installation }

// AddSchedule makes a schedule on the operator's behalf.
func (t Timetable) AddSchedule(ctx context.Context, n NewSchedule) (ScheduleStatus, error) {
	return scheduling.AddSchedule(ctx, t.inst, n)
}

// Schedules are those of a group, or of all groups where it is empty.
func (t Timetable) Schedules(ctx context.Context, group nacre.Group) ([]ScheduleStatus, error) {
	return scheduling.SchedulesOf(ctx, t.inst, group)
}

// Schedule is one schedule with its latest ticks, the latest first.
func (t Timetable) Schedule(ctx context.Context, id string, ticks int) (ScheduleStatus, []TickStatus, error) {
	return scheduling.ScheduleNamed(ctx, t.inst, id, ticks)
}

// RunSchedule asks the process that serves the schedules for one tick now. Where
// none does, it is a NotReady.
func (t Timetable) RunSchedule(ctx context.Context, id string) (TickStatus, error) {
	return scheduling.RunSchedule(ctx, t.inst, id)
}

// PauseSchedule pauses a schedule, and ResumeSchedule lets it go on.
func (t Timetable) PauseSchedule(ctx context.Context, id string) error {
	return scheduling.PauseSchedule(ctx, t.inst, id)
}

// ResumeSchedule lets a paused schedule go on. What would have been due meanwhile
// is not made up for.
func (t Timetable) ResumeSchedule(ctx context.Context, id string) error {
	return scheduling.ResumeSchedule(ctx, t.inst, id)
}

// RemoveSchedule removes a schedule with what is known of its ticks.
func (t Timetable) RemoveSchedule(ctx context.Context, id string) error {
	return scheduling.RemoveSchedule(ctx, t.inst, id)
}
