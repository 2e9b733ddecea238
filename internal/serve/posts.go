package serve

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/operator"
	"github.com/nacre-dev/nacre/plugin"
)

const (
	// postLook is how often a node asks for channels that another one serves: with the length
	// of a lease they have moved within three seconds. postWait bounds such a question.
	postLook = 500 * time.Millisecond
	postWait = 2 * time.Second
	// leaseLook is how often a node asks for what lost sessions of other machines had minted.
	leaseLook = 2 * time.Second
	// postRest is for how many looks a node leaves a channel to others that it could not serve.
	postRest = 20
)

// station is a node that may hold posts.
type station interface {
	Hold(ctx context.Context, post string) (held bool, err error)
	Resign(ctx context.Context, post string) error
}

// posts are the plugins whose channels one node at a time serves. A process without
// a node serves all.
type posts struct {
	mu   sync.Mutex
	node station
	// held are those of this node's, and resting those that it leaves to others, with for
	// how many looks.
	held    map[nacre.PluginName]bool
	resting map[nacre.PluginName]int
}

// serves takes the post of a plugin that may serve once, as it starts. Where the store does
// not answer, the plugin starts without its channels and a later look asks again.
func (p *posts) serves(name nacre.PluginName) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.node == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), postWait)
	defer cancel()
	held, err := p.node.Hold(ctx, post(name))
	p.held[name] = held && err == nil
	return p.held[name]
}

func post(name nacre.PluginName) string { return "channels of " + string(name) }

// here tells whether the channels of a plugin are served here.
func (p *posts) here(m plugin.Manifest, name nacre.PluginName) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.node == nil || !m.Once || p.held[name]
}

// moves tells what a look has to do with a plugin: take its post where nobody has it, or give
// it back where the plugin does not run here.
func (p *posts) moves(name nacre.PluginName, runs bool) (take, resign bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resting[name] > 0 {
		p.resting[name]--
		return false, false
	}
	return runs && !p.held[name], !runs && p.held[name]
}

// resign leaves the channels of a plugin to other nodes for a while.
func (p *posts) resign(ctx context.Context, name nacre.PluginName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.node.Resign(ctx, post(name)) == nil { // else the next look does it
		p.held[name], p.resting[name] = false, postRest
	}
}

// free tells whether this node got the post of a plugin that it does not serve yet.
func (p *posts) free(ctx context.Context, name nacre.PluginName) bool {
	ctx, cancel := context.WithTimeout(ctx, postWait)
	defer cancel()
	got, err := p.node.Hold(ctx, post(name))
	return got && err == nil
}

// loseSessions says of sessions whose machine is over that they are lost, and goes on with their runs, until work ends.
func (h *server) loseSessions(work context.Context, working *sync.WaitGroup) {
	h.posts.look(work, postLook, func() {
		_ = operator.LoseSessions(work, h.Inst) // what fails is done at a later look
		h.carryOn(work, working)
	})
}

// takeLeasesBack revokes what lost sessions of other machines had minted, until work ends. A provider that does not
// answer keeps nothing else waiting.
func (h *server) takeLeasesBack(work context.Context) {
	h.posts.look(work, leaseLook, func() {
		for _, record := range h.lost.TakeBack(work) {
			h.Note(work, record)
		}
	})
}

// look does again and again what a node does for others, until work ends.
func (p *posts) look(work context.Context, every time.Duration, do func()) {
	if p.node == nil {
		return
	}
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-work.Done():
			return
		case <-ticks.C:
			do()
		}
	}
}

// keepPosts takes over the channels that no node serves any more, until work ends.
func (h *server) keepPosts(work context.Context) {
	if h.posts.node == nil || len(h.shared.Once()) == 0 {
		return
	}
	rings, end := h.mail.Rings()
	defer end()
	look := time.NewTicker(postLook)
	defer look.Stop()
	for {
		select {
		case <-work.Done():
			return
		case <-rings:
		case <-look.C:
		}
		healthy := h.shared.Host.Health().Healthy
		for _, name := range h.shared.Once() {
			h.keepPost(work, name, slices.Contains(healthy, name))
		}
	}
}

// keepPost starts a plugin again, with its channels, where this node gets their post. Where
// it cannot start, another node may.
func (h *server) keepPost(work context.Context, name nacre.PluginName, runs bool) {
	take, resign := h.posts.moves(name, runs)
	outcome, reason := "", "plugin "+string(name)
	switch {
	case resign:
		h.posts.resign(work, name)
		outcome = "channels left to other nodes"
	case take && h.posts.free(work, name):
		outcome = "channels served here from now on"
		if err := h.reload(work, name); err != nil {
			h.posts.resign(work, name)
			outcome, reason = "channels left to other nodes", reason+": "+h.Clean(err.Error())
		}
	default:
		return
	}
	h.Note(work, nacre.Record{Kind: nacre.KindEvent, Topic: "channel", Outcome: outcome, Reason: reason})
}
