package assembly

import (
	"context"

	"github.com/nacre-dev/nacre/internal/schedule"
)

// RunSchedules starts what is due until ctx ends.
func (r *Runtime) RunSchedules(ctx context.Context, start func(context.Context, schedule.Claim) (string, error),
	created func(context.Context, schedule.Schedule), left func(context.Context, schedule.Tick),
) error {
	return r.runSchedules(ctx, scheduleHooks{start, created, r.tickEnd, left})
}

// LocalZone is the time zone of schedules that name none.
func (r *Runtime) LocalZone() string { return r.localZone() }
