package sandbox

import (
	"syscall"
)

// Exit says how the agent ended.
type Exit struct {
	// Code is the exit code; 128 + Signal where a signal ended it.
	Code   int
	Signal syscall.Signal
	// TimedOut is set when the wall limit ended it.
	TimedOut bool
	// OOM is set when the kernel killed a process of it for memory.
	OOM bool
	// Killed is set when Kill or the context ended it.
	Killed bool
}

// Memory says that the kernel ended processes for their memory, and at which limit;
// "" where it did not.
func (e Exit) Memory(limit int64) string {
	switch {
	case !e.OOM:
		return ""
	case e.Code == 128+int(syscall.SIGKILL):
		return "the memory limit (" + Bytes(limit) + ") ended the command"
	}
	return "the memory limit (" + Bytes(limit) + ") ended a process of the command"
}

// why a sandbox was ended from outside.
const (
	endedByWall int32 = iota + 1
	endedByKill
	endedByContext
)
