package assembly

import (
	"context"

	"github.com/nacre-dev/nacre/internal/schedule"
	"github.com/nacre-dev/nacre/internal/scheduling"
)

// RunSchedules starts what is due until ctx ends.
func (r *Runtime) RunSchedules(ctx context.Context, start func(context.Context, schedule.Claim) (string, error),
	created func(context.Context, schedule.Schedule), left func(context.Context, schedule.Tick),
) error {
	ended := func(t schedule.Tick) (schedule.State, string) { return scheduling.TickEnd(r.inst, t) }
	return scheduling.RunSchedules(ctx, r.inst, nil, scheduling.ScheduleHooks{Start: start, Created: created, Ended: ended, Left: left})
}

// LocalZone is the time zone of schedules that name none.
func (r *Runtime) LocalZone() string { return scheduling.LocalZone(r.inst) }
