package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre/internal/sandbox/inside"
)

const (
	// describeTimeout is how long the program may take to look at its cluster.
	describeTimeout = 30 * time.Second
	// maxDescription is the longest description that is read, in bytes.
	maxDescription = 64 << 10
	// maxComplaint is how much of what the program complains about is kept, in bytes.
	maxComplaint = 2048
)

// PodProgram is what the program is called.
const PodProgram = inside.PodProgram

// PodSettings are the operator's.
type PodSettings = inside.PodSettings

// PodOptions of OpenPods.
type PodOptions struct {
	// Program is the path of nacre-k8s.
	Program  string
	Settings inside.PodSettings
	// StateDir is what no mount may show.
	StateDir string
}

// Pods starts sandboxes in pods of a cluster, by a program of its own: what they get is computed
// and checked here and is copied. Files go there as a snapshot, and what the agent wrote comes
// back as data. It may be used concurrently.
type Pods struct {
	options PodOptions
	about   inside.PodDescription
}

var _ Backend = (*Pods)(nil)

// OpenPods asks the program whether its cluster can start what a posture wants.
func OpenPods(ctx context.Context, o PodOptions) (*Pods, error) {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	settings, err := json.Marshal(o.Settings)
	if err != nil {
		return nil, err
	}
	said := limited{most: maxDescription}
	complaint := limited{most: maxComplaint}
	command := exec.CommandContext(ctx, o.Program, inside.PodDescribe)
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(settings), &said, &complaint
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("it did not answer within %s", describeTimeout)
		}
		return nil, explained(err, &complaint)
	}
	b := &Pods{options: o}
	if err := json.Unmarshal(said.text.Bytes(), &b.about); err != nil || said.cut {
		return nil, fmt.Errorf("%s describes its sandboxes in a way that this nacre does not read: build both from the same source", o.Program)
	}
	return b, nil
}

// explained prefers the program's own words.
func explained(err error, complaint *limited) error {
	if text := complaint.String(); text != "" {
		return errors.New(text)
	}
	return err
}

// Close implements Backend.
func (b *Pods) Close() error { return nil }

// Name implements Backend.
func (b *Pods) Name() string {
	if b.about.Runtime == "" {
		return "k8s"
	}
	return "k8s (" + b.about.Runtime + ")"
}

// HostTools is false: the pod's image brings its own.
func (b *Pods) HostTools() bool { return false }

// PeerUIDs is this user alone: the program connects for what runs in the pod.
func (b *Pods) PeerUIDs() []int { return []int{os.Geteuid()} }

// Holds implements Backend.
func (b *Pods) Holds() string { return b.about.Holds }

// NotEnforced implements Backend.
func (b *Pods) NotEnforced() []string { return b.about.NotEnforced }

// limited keeps the beginning of what is written.
type limited struct {
	mu   sync.Mutex
	text bytes.Buffer
	most int
	cut  bool
}

// Write implements io.Writer. It takes everything.
func (l *limited) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	room := min(len(p), l.most-l.text.Len())
	l.cut = l.cut || room < len(p)
	l.text.Write(p[:room])
	return len(p), nil
}

// String is what was kept, on one line.
func (l *limited) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(printable(l.text.String()))
}
