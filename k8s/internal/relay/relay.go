// Package relay promises the host's part of a sandbox in a pod. It claims the pod, takes the
// files there and back, and leads the connections of what runs inside to the session's own sockets.
// What comes from the pod is never believed further than that.
package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/nacre-dev/nacre/internal/sandbox/inside"
	"github.com/nacre-dev/nacre/k8s/internal/claim"
	"github.com/nacre-dev/nacre/k8s/internal/pod"
	"github.com/nacre-dev/nacre/k8s/internal/snapshot"
	"github.com/nacre-dev/nacre/k8s/internal/stream"
)

const (
	// cleanTimeout is how long a claim may take to be deleted.
	cleanTimeout = 30 * time.Second
	// returnTimeout is how long what the agent left may take to come back.
	returnTimeout = 10 * time.Minute
	// maxConnections of what runs inside, at once.
	maxConnections = 512
)

var errLeft = errors.New("nacre has ended the sandbox, or has ended itself")

// Streams are the agent's, on this machine.
type Streams struct{ In, Out, Err *os.File }

// Describe says what a sandbox would be.
func Describe(ctx context.Context, settings inside.PodSettings) (inside.PodDescription, error) {
	if _, err := place(settings); err != nil {
		return inside.PodDescription{}, err
	}
	cluster, err := claim.Open(settings)
	if err != nil {
		return inside.PodDescription{}, err
	}
	template, err := cluster.Look(ctx)
	if err != nil {
		return inside.PodDescription{}, err
	}
	if _, err := cluster.Secret(ctx); err != nil {
		return inside.PodDescription{}, err
	}
	d := inside.PodDescription{
		Runtime: template.Runtime,
		Holds:   fmt.Sprintf("a pod of the warm pool %s/%s at %s, image %s, no service account token", settings.Namespace, settings.Pool, cluster.Host(), template.Image),
		NotEnforced: []string{
			"network: what keeps the pod from other addresses than this machine's is the cluster's network plugin; the pod refuses to start where it reaches the API server",
			"memory, cpu, processes: those of the template count; a process's own memory is limited besides",
			"read-only: what is bound read-only is a copy inside, which the agent may change; nothing of it comes back",
			"files: what changes here after the start is not seen inside, and what the agent writes comes back when it has ended",
			"noexec: files are programs wherever the pod's volumes let them be",
		},
	}
	if template.Runtime == "" {
		d.NotEnforced = append(d.NotEnforced, "kernel: the template names no runtime class; pods share their node's kernel unless the cluster's own default is gVisor or Kata")
	}
	return d, nil
}

// run is one sandbox.
type run struct {
	order   inside.PodOrder
	control net.Conn
	streams Streams
	words   chan inside.Word
	claim   *claim.Claim
	session *yamux.Session
	pod     podStreams
	output  sync.WaitGroup
}

// podStreams are those of the stream's that are opened once.
type podStreams struct{ control, files, back, in, out, err *yamux.Stream }

// Run does what the order on control says. What went wrong is said there.
func Run(ctx context.Context, control net.Conn, s Streams) error {
	r := &run{control: control, streams: s, words: make(chan inside.Word)}
	if err := inside.Receive(control, &r.order); err != nil {
		return fmt.Errorf("order: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go r.listenToNacre(ctx, cancel)
	report, err := r.sandbox(ctx)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		report.Error = err.Error()
	}
	return inside.Send(control, report)
}

// listenToNacre passes on what nacre says, and ends the sandbox when it is gone.
func (r *run) listenToNacre(ctx context.Context, cancel context.CancelCauseFunc) {
	word := make([]byte, 1)
	for {
		if _, err := io.ReadFull(r.control, word); err != nil {
			cancel(errLeft)
			return
		}
		select {
		case r.words <- inside.Word(word[0]):
		case <-ctx.Done():
			return
		}
	}
}

// sandbox claims a pod, works in it, and gives it back.
func (r *run) sandbox(ctx context.Context) (report inside.Report, err error) {
	cluster, err := claim.Open(r.order.Settings)
	if err != nil {
		return report, err
	}
	secret, err := cluster.Secret(ctx)
	if err != nil {
		return report, err
	}
	at, err := place(r.order.Settings)
	if err != nil {
		return report, err
	}
	listener, address, err := at.listen(ctx)
	if err != nil {
		return report, err
	}
	defer func() { _ = listener.Close() }() // one pod is all that was waited for
	if r.claim, err = cluster.Claim(ctx, r.order.Label, r.order.Owner, address); err != nil {
		return report, err
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
		defer cancel()
		err = errors.Join(err, r.claim.Delete(clean))
	}()
	keeping, cancel := context.WithCancel(ctx)
	defer cancel()
	go r.claim.Keep(keeping)
	given, err := r.claim.Ready(ctx)
	if err != nil {
		return report, err
	}
	key, err := stream.KeyOf(secret, given.UID)
	if err != nil {
		return report, err
	}
	if r.session, err = accept(ctx, listener, key); err != nil {
		return report, fmt.Errorf("the pod %s: %w", given.Name, err)
	}
	defer func() { _ = r.session.Close() }() // which ends PID 1
	stop := context.AfterFunc(ctx, func() { _ = r.session.Close() })
	defer stop()
	return r.work(ctx)
}

// work goes from a pod that has proved itself to what it left.
func (r *run) work(ctx context.Context) (inside.Report, error) {
	sent, err := r.prepare(ctx)
	if err != nil {
		return inside.Report{}, r.broken(ctx, err)
	}
	var report inside.Report
	if err := inside.Receive(r.pod.control, &report); err != nil {
		return report, r.broken(ctx, err)
	}
	if !report.Started {
		return report, nil
	}
	r.connect()
	if err := inside.Send(r.control, report); err != nil {
		return report, err
	}
	ended := make(chan error, 1)
	report = inside.Report{}
	go func() { ended <- inside.Receive(r.pod.control, &report) }()
	for {
		select {
		case word := <-r.words:
			if err := inside.Say(r.pod.control, word); err != nil {
				return inside.Report{}, r.broken(ctx, err)
			}
		case err := <-ended:
			if err != nil {
				return inside.Report{}, r.broken(ctx, err)
			}
			return report, r.takeBack(ctx, sent)
		}
	}
}

// broken says why a stream ended before its time.
func (r *run) broken(ctx context.Context, err error) error {
	if !r.session.IsClosed() {
		return err
	}
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	return fmt.Errorf("%s (%w): what its agent had written is lost", r.claim.Why(asking), err)
}

// prepare gives the pod its work and its files, and waits until it has them.
func (r *run) prepare(ctx context.Context) (*snapshot.Sent, error) {
	for _, next := range []struct {
		kind stream.Kind
		to   **yamux.Stream
	}{
		{stream.Control, &r.pod.control}, {stream.Files, &r.pod.files}, {stream.Return, &r.pod.back},
		{stream.Stdin, &r.pod.in}, {stream.Stdout, &r.pod.out}, {stream.Stderr, &r.pod.err},
	} {
		var err error
		if *next.to, err = stream.Open(r.session, next.kind, ""); err != nil {
			return nil, err
		}
	}
	sockets, err := r.sockets()
	if err != nil {
		return nil, err
	}
	go r.serve(ctx, sockets)
	work := pod.Work{Entries: r.order.Entries, Sockets: sockets, Input: true, Inside: r.order.Work}
	if err := inside.Send(r.pod.control, work); err != nil {
		return nil, err
	}
	return r.sendFiles()
}

// sendFiles sends, and listens meanwhile: a pod that cannot take them says so.
func (r *run) sendFiles() (*snapshot.Sent, error) {
	var sent *snapshot.Sent
	sending := make(chan error, 1)
	go func() {
		var err error
		sent, err = snapshot.Send(r.pod.files, r.order.Entries)
		if err != nil {
			err = errors.Join(err, r.pod.files.Close()) // the pod need not wait for more
		}
		sending <- err
	}()
	var ready pod.Ready
	receiving := make(chan error, 1)
	go func() { receiving <- inside.Receive(r.pod.control, &ready) }()
	for received := false; ; {
		select {
		case err := <-sending:
			if err != nil {
				return nil, fmt.Errorf("the snapshot: %w", err)
			}
			if received {
				return sent, nil
			}
			sending = nil
		case err := <-receiving:
			if err != nil {
				return nil, err
			}
			if ready.Error != "" {
				return nil, errors.New(ready.Error)
			}
			if sending == nil {
				return sent, nil
			}
			received, receiving = true, nil
		}
	}
}

// sockets are the names of the session's.
func (r *run) sockets() ([]string, error) {
	if r.order.Sockets == "" {
		return nil, nil
	}
	list, err := os.ReadDir(r.order.Sockets)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range list {
		if entry.Type() == os.ModeSocket {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// serve leads what the pod opens to the sockets that it was offered, and to nothing else.
func (r *run) serve(ctx context.Context, offered []string) {
	places := make(chan struct{}, maxConnections)
	for {
		places <- struct{}{}
		s, err := r.session.AcceptStream()
		if err != nil {
			return
		}
		go func() {
			defer func() { <-places }()
			defer func() { _ = s.Close() }() // either way it has ended
			r.lead(ctx, s, offered)
		}()
	}
}

func (r *run) lead(ctx context.Context, s *yamux.Stream, offered []string) {
	kind, name, err := stream.Opened(s)
	if err != nil || kind != stream.Socket || !slices.Contains(offered, name) {
		return
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", filepath.Join(r.order.Sockets, name))
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }() // both directions have ended
	stream.Join(conn, s)
}

// connect leads the agent's streams to this machine's.
func (r *run) connect() {
	go func() {
		_, _ = io.Copy(r.pod.in, r.streams.In) // an agent that is gone reads nothing
		_ = r.pod.in.Close()
	}()
	for _, pair := range []struct {
		to   *os.File
		from *yamux.Stream
	}{{r.streams.Out, r.pod.out}, {r.streams.Err, r.pod.err}} {
		r.output.Go(func() {
			if _, err := io.Copy(pair.to, pair.from); err != nil {
				_, _ = io.Copy(io.Discard, pair.from) // the agent need not wait for a reader that is gone
			}
		})
	}
}

// takeBack puts what the agent left in its place, when all of it is here.
func (r *run) takeBack(ctx context.Context, sent *snapshot.Sent) error {
	late := time.AfterFunc(returnTimeout, func() { _ = r.session.Close() })
	defer late.Stop()
	r.output.Wait()
	returned, err := sent.Take(r.pod.back, r.order.Disk)
	if err != nil {
		return r.broken(ctx, err)
	}
	return errors.Join(returned.Apply(), returned.Close())
}
