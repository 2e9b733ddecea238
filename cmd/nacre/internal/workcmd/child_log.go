package workcmd

import (
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
)

// childLog keeps what a sub-agent tells, for nacre ps, logs and attach: nothing of it is shown where its
// parent's run is.
type childLog struct {
	mu  sync.Mutex
	log *assembly.EventLog // nil before the session is there, and where none is kept
}

// childOf opens a log for each sub-agent of a run, and of those below it.
func childOf(env *command.Env, rt *assembly.Runtime) func(nacre.SessionID) (assembly.Telling, func(assembly.Report, error)) {
	return func(id nacre.SessionID) (assembly.Telling, func(assembly.Report, error)) {
		var c childLog
		return assembly.Telling{
			Started: func(info assembly.SessionInfo) {
				_ = c.opened(func() *assembly.EventLog { return openLog(env, rt, id) }).Write(eventStarted, info) // the audit has what counts
			},
			Progress: func(e nacre.Step) { _ = c.opened(nil).Write(eventProgress, e) },
			Child:    childOf(env, rt),
		}, func(report assembly.Report, err error) { c.ended(env, report, err) }
	}
}

// ended keeps what the sub-agent came to.
func (c *childLog) ended(env *command.Env, report assembly.Report, err error) {
	log := c.opened(nil)
	if err == nil {
		_ = log.Write(eventReport, report) // the receipt has what counts
		err = exitOf(report)
	}
	endLog(env, log, err)
}

// opened is the log, which open opens where it is not yet.
func (c *childLog) opened(open func() *assembly.EventLog) *assembly.EventLog {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log == nil && open != nil {
		c.log = open()
	}
	return c.log
}
