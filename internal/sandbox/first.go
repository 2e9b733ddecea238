//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/sandbox/inside"
	"github.com/nacre-dev/nacre/internal/sandbox/spawn"
)

// maxLog is how much of what PID 1 complained about is kept, in bytes.
const maxLog = 2048

// manyFiles is above the descriptors that most plans come with.
const manyFiles = 500

// oomScore makes the host's memory killer look at sandboxes first.
const oomScore = "500"

// first is a PID 1 that waits for its plan, with what the host holds for it.
type first struct {
	process *os.Process
	control *os.File
	log     *os.File // what it complains about
	label   string   // of the command that it is for, "" while it is for none
	mounts  *os.File // tells of mounts made since; nil where they do not matter
	group   *cgroup
	settled chan struct{}

	// set when it has settled
	record string
	err    error
}

// startFirst makes the namespaces of a sandbox with its PID 1 in them, and settles
// it while the caller goes on. An empty label says that it has no command yet.
func (n *Native) startFirst(label string) (*first, error) {
	init, err := n.init.file()
	if err != nil {
		return nil, fmt.Errorf("sandbox-init: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = null.Close() }()
	ours, theirs, err := controlPair()
	if err != nil {
		return nil, err
	}
	defer func() { _ = theirs.Close() }()
	log, err := unix.MemfdCreate("log", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	f := &first{control: ours, log: os.NewFile(uintptr(log), "log"), label: label, settled: make(chan struct{})}
	if !n.users.privileged { // PID 1 opens what it mounts in its own copy of the mounts
		mounts, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0) // past the runtime, which would take what it tells
		if err != nil {
			f.close()
			return nil, err
		}
		f.mounts = os.NewFile(uintptr(mounts), "mounts")
	}
	child, err := n.spawnFirst(f, []uintptr{null.Fd(), null.Fd(), f.log.Fd(), theirs.Fd(), init.Fd()})
	if err == nil {
		if f.process, err = os.FindProcess(child.Pid); err != nil {
			child.End()
		}
	}
	if err != nil {
		f.close()
		f.group.remove()
		return nil, explain(err)
	}
	go func() {
		defer close(f.settled)
		if f.err = child.Executed(); f.err != nil {
			f.err = explain(f.err)
			return
		}
		f.err = f.settle(n)
	}()
	return f, nil
}

// spawnFirst clones PID 1 in groups of its own.
func (n *Native) spawnFirst(f *first, files []uintptr) (*spawn.Child, error) {
	if n.cgroups == (cgroups{}) {
		return n.users.spawn(files, nil)
	}
	var err error
	if f.group, err = n.cgroups.make(); err != nil {
		return nil, err
	}
	joins, err := f.group.joins()
	if err != nil {
		return nil, err
	}
	defer closeFiles(joins)
	return n.users.spawn(files, joins)
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// spawn clones PID 1, with its files from 0 on, which joins groups by itself.
func (u userRange) spawn(files []uintptr, joins []*os.File) (*spawn.Child, error) {
	var p spawn.Program
	for _, group := range joins {
		p.Do("cgroup", unix.SYS_WRITE, group.Fd(), p.Text("0"), 1)
	}
	// Room for the descriptors of a plan, made while nobody shares the table: for the
	// threads of a program the kernel waits some ten milliseconds to make it.
	p.Try(unix.SYS_FCNTL, 0, unix.F_DUPFD_CLOEXEC, manyFiles)
	p.Do("session", unix.SYS_SETSID)
	if u.privileged {
		p.Do("groups", unix.SYS_SETGROUPS, 0, 0)
	}
	p.Do("group", unix.SYS_SETGID, 0)
	p.Do("user", unix.SYS_SETUID, 0)
	p.Do("folder", unix.SYS_CHDIR, p.Text("/"))
	p.Files(files)
	p.Signals()
	p.Exec("sandbox-init", fmt.Sprintf("/proc/self/fd/%d", inside.SelfFD), []string{Init, inside.ModeInit}, initEnv())
	child, err := p.Start(spawn.Shared | namespaceFlags)
	if err != nil {
		return nil, err
	}
	users, groups := u.mappings()
	if err = child.Map(users, groups, u.privileged); err == nil {
		err = child.Go()
	}
	if err != nil {
		child.End()
		return nil, err
	}
	return child, nil
}

// settle moves PID 1 to its groups, where it could not join them by itself, and notes
// it in the state directory.
func (f *first) settle(n *Native) error {
	if n.cgroups.version != 1 {
		if err := f.group.enter(f.process.Pid); err != nil {
			return err
		}
	}
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", f.process.Pid), []byte(oomScore), 0) // a preference only
	return f.note(n.options.StateDir)
}

// note writes the record by which EndOrphans finds the sandbox.
func (f *first) note(stateDir string) error {
	if stateDir == "" {
		return nil
	}
	before := f.record
	var err error
	f.record, err = writeRecord(stateDir, f.label, f.process.Pid, f.group.dirs())
	if err == nil && before != "" {
		err = os.Remove(before)
	}
	return err
}

// name says which command a settled PID 1 is for.
func (f *first) name(stateDir, label string) error {
	if f.label == label {
		return nil
	}
	f.label = label
	return f.note(stateDir)
}

// propose hands over the plan, so that PID 1 begins.
func (f *first) propose(plan inside.Plan, streams [3]*os.File, trees []*os.File) error {
	if err := f.control.SetDeadline(time.Now().Add(startTimeout)); err != nil {
		return err
	}
	return inside.SendOrder(f.control, plan, streams, trees)
}

// waits reports whether PID 1 is still good for a plan. The memory killer looks at an idle one before anything else,
// and an idle one does not see what the host has mounted since.
func (f *first) waits() bool {
	raw, err := f.control.SyscallConn()
	if err != nil {
		return false
	}
	silent := false
	err = raw.Control(func(control uintptr) {
		events := []unix.PollFd{{Fd: int32(control), Events: unix.POLLIN}, {Fd: -1}}
		if f.mounts != nil {
			events[1] = unix.PollFd{Fd: int32(f.mounts.Fd()), Events: unix.POLLPRI}
		}
		n, err := unix.Poll(events, 0)
		silent = n == 0 && err == nil
	})
	return silent && err == nil
}

// broken reports whether PID 1 is known to have no groups or no record.
func (f *first) broken() bool {
	select {
	case <-f.settled:
		return f.err != nil
	default:
		return false
	}
}

// complaint is what PID 1 wrote to its own stderr.
func (f *first) complaint() string {
	text, err := io.ReadAll(io.NewSectionReader(f.log, 0, maxLog))
	if err != nil {
		return ""
	}
	return printable(string(text))
}

// end kills PID 1, frees what the host held for it, and returns its complaint.
func (f *first) end() string {
	_ = f.process.Kill()    // it may be gone already
	_, _ = f.process.Wait() // its exit code says nothing
	<-f.settled
	defer f.clean()
	return f.complaint()
}

// clean frees what the host held for a PID 1 that is gone.
func (f *first) clean() {
	f.close()
	f.group.remove()
	if f.record != "" {
		_ = os.Remove(f.record) // EndOrphans removes it otherwise
	}
}

func (f *first) close() {
	_ = f.control.Close()
	_ = f.log.Close()
	if f.mounts != nil {
		_ = f.mounts.Close()
	}
}
