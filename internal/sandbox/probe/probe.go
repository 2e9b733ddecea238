//go:build linux

// Package probe promises a suite of attempts to get out of a sandbox (M-13). Each is one small
// function that runs inside and says whether it was blocked, escaped, or could not be tried. Every
// probe does harm to decoys only, is bounded, and can be run without a sandbox, where it must
// escape: a probe that cannot fail proves nothing. It does not start sandboxes.
package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// Name is argv[0] of a process that must run [Main].
	Name = "nacre-probe"
	// DecoyName is argv[0] of one that the probes may harm: it does nothing in [Main],
	// until whoever started it closes its standard input.
	DecoyName = "nacre-decoy"
)

// TokenVariable is what the agent's token is called in the environment that
// starts the probes.
const TokenVariable = "NACRE_PROBE_TOKEN"

// timeout of one probe. The slowest makes 200,000 files, in gVisor.
const timeout = time.Minute

// Verdict of a probe. The zero value is no verdict.
type Verdict string

// The verdicts.
const (
	Blocked    Verdict = "BLOCKED"
	Escaped    Verdict = "ESCAPED"
	Untestable Verdict = "UNTESTABLE"
)

// Control says when the probe must escape where no sandbox is.
type Control uint8

// The conditions of a control run.
const (
	// Always: for every user, on every kernel.
	Always Control = iota
	// AsRoot: an ordinary user is stopped by the kernel alone.
	AsRoot
	// WhereBuilt: a kernel may have been built or set up without the feature, and a small
	// system may lack the file or the program.
	WhereBuilt
)

// Probe is one attempt.
type Probe struct {
	Class   string
	Name    string
	Control Control
	Run     func(Target) Finding
}

// Finding is what a probe reports.
type Finding struct {
	Probe   string  `json:"probe"`
	Verdict Verdict `json:"verdict"`
	Reason  string  `json:"reason"`
}

// Target names the decoys. The same probe gets other decoys in a control run.
type Target struct {
	Files
	Shown
	Listeners
	Host
	Limits
	// Marker occurs in what must not be readable: Secret, the environment and
	// the argument list of host processes.
	Marker string
	// Token occurs in the environment of the agent that starts the probes, and
	// in none of theirs.
	Token string
}

// Files are where there is something to read or write.
type Files struct {
	// Secret is a file on the host that holds Marker.
	Secret string
	// Outside is a directory on the host that the user can write.
	Outside string
	// Project is writable, with .git in it read-only and .env masked.
	Project string
	// Scratch, Shm and Tmp are where files of the agent's own go.
	Scratch, Shm, Tmp string
	// Canary is a file that does not exist, in a directory that only the host has.
	Canary string
}

// Listeners are who can be connected to.
type Listeners struct {
	// TCP, TCP6, UDP, Abstract and Socket are listeners on the host.
	TCP, TCP6, UDP, Abstract, Socket string
	// Proxy is the address of the egress proxy. It lets through Allowed:443 (TLS),
	// Plain:80 (HTTP) and Private:443, a name whose address is the machine's own.
	Proxy, Allowed, Plain, Private string
}

// Host is what else the host has.
type Host struct {
	// HostPid is a decoy process on the host, Init the one that must not be reached: PID 1 inside.
	HostPid, Init int
	// ShmKey is a shared memory segment on the host, and a semaphore and message queues.
	ShmKey int
	// HostName of the host, its boot id, the command line of its kernel, and what is
	// mounted at its root, as RootMount has it.
	HostName, Boot, CommandLine, Root string
}

// Limits are those that the sandbox was given.
type Limits struct {
	Processes, OpenFiles int
	// Watches is how many inotify instances a user of the host may have.
	Watches                 int
	Memory, FileSize, Space int64
}

// All are the probes, in the order of their classes.
func All() []Probe {
	var all []Probe
	for _, class := range [][]Probe{
		fileSystem(), sharedLocks(), shownFolders(), lateExecution(), network(), rareProtocols(), newerSockets(), namespaces(), privileges(), newerSettings(),
		processes(), ipcProbes(), initProbes(), sharedCounts(), proxyBypasses(), resources(), sharedResources(), secrets(), sharedSecrets(),
		systemCalls(), rareCalls(), newerCalls(),
	} {
		all = append(all, class...)
	}
	return all
}

const (
	// alone is the first argument of a process that runs one probe.
	alone = "-alone"
	// Overwriting is the first argument of a process that tries to change the files
	// named after it, below the target's project.
	Overwriting = "-overwrite"
)

// Main runs the probes named in args[1:], each in a process of its own. The
// target comes as JSON on standard input; findings go to standard output, one
// JSON object a line.
func Main(args []string) int {
	if filepath.Base(args[0]) == DecoyName {
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	}
	signal.Ignore(unix.SIGXFSZ) // a limit on file size shall be an error
	input, err := io.ReadAll(os.Stdin)
	var target Target
	if err == nil {
		err = json.Unmarshal(input, &target)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		return 2
	}
	out := json.NewEncoder(os.Stdout)
	if len(args) > 1 && args[1] == Overwriting {
		for _, name := range args[2:] {
			if err := out.Encode(overwrite(target, name)); err != nil {
				return 1
			}
		}
		return 0
	}
	all := All()
	for _, name := range args[1:] {
		i := slices.IndexFunc(all, func(p Probe) bool { return p.Name == name })
		if i < 0 {
			continue
		}
		p := all[i]
		finding := Finding{}
		if args[1] == alone {
			finding = p.Run(target)
			finding.Probe = p.Name
		} else {
			finding = apart(p, input)
		}
		if err := out.Encode(finding); err != nil {
			return 1
		}
	}
	return 0
}

// apart runs one probe in a process of its own, which may die of it.
func apart(p Probe, input []byte) Finding {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", alone, p.Name)
	cmd.Args[0] = Name
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, TokenVariable+"=") })
	cmd.Stdin = strings.NewReader(string(input))
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	var finding Finding
	if json.Unmarshal(out, &finding) == nil && finding.Verdict != "" {
		return finding
	}
	finding = Finding{Probe: p.Name, Verdict: Untestable, Reason: fmt.Sprintf("the probe itself: %v", err)}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil: // killed by us, which proves nothing
		finding.Reason = "not done in " + timeout.String()
	case errors.As(err, &exit):
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			finding.Verdict, finding.Reason = Blocked, "killed by "+status.Signal().String()
		}
	}
	return finding
}

// overwrite tries each way to make a file of the project say what the agent wants.
func overwrite(t Target, name string) Finding {
	path := filepath.Join(t.Project, name)
	own := filepath.Join(t.Project, ".nacre-probe-own")
	var refused error
	for _, way := range []struct {
		what string
		try  func() error
	}{
		{"it can be written to", func() error { return writeTo(path) }},
		{"it can be replaced", func() error { return errors.Join(os.WriteFile(own, nil, 0o600), os.Rename(own, path)) }},
		{"it can be moved away", func() error { return os.Rename(path, own) }},
		{"it can be removed", func() error { return os.RemoveAll(path) }},
	} {
		err := way.try()
		_ = os.RemoveAll(own)
		if err == nil {
			return Finding{Probe: name, Verdict: Escaped, Reason: way.what}
		}
		refused = err
	}
	return Finding{Probe: name, Verdict: Blocked, Reason: refused.Error()}
}

// writeTo adds to a file, or makes one in a folder.
func writeTo(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		path = filepath.Join(path, ".nacre-probe-own")
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func blocked(format string, args ...any) Finding {
	return Finding{Verdict: Blocked, Reason: fmt.Sprintf(format, args...)}
}

func escaped(format string, args ...any) Finding {
	return Finding{Verdict: Escaped, Reason: fmt.Sprintf(format, args...)}
}

func untestable(err error) Finding { return Finding{Verdict: Untestable, Reason: err.Error()} }

// attempt is escaped when the attempt succeeded.
func attempt(err error, what string) Finding {
	if err == nil {
		return escaped("%s", what)
	}
	return blocked("%v", err)
}

// permitted is escaped unless the kernel refused: with arguments that do no
// harm, any other error says that the call was let through.
func permitted(err error, what string) Finding {
	for _, refusal := range []error{unix.EPERM, unix.EACCES, unix.ENOSYS, unix.EAFNOSUPPORT, unix.EPROTONOSUPPORT} {
		if errors.Is(err, refusal) {
			return blocked("%v", err)
		}
	}
	return escaped("%s: %v", what, err)
}

// call is a raw system call as an error.
func call(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, e := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); e != 0 {
		return e
	}
	return nil
}
