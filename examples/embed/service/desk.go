package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/nacre-dev/nacre"
)

// desk keeps questions until somebody answers them. It is the kernel's Approver: the
// kernel holds the time, checks the digest, and records who answered.
type desk struct {
	mu      sync.Mutex
	waiting map[string]waiting
}

type waiting struct {
	question nacre.Question
	answers  chan nacre.Ruling
}

// ruling is an operator's answer to a question.
type ruling struct {
	ID, By string
	Allow  bool
}

func newDesk() *desk { return &desk{waiting: map[string]waiting{}} }

// Ask implements nacre.Approver.
func (d *desk) Ask(ctx context.Context, q nacre.Question) (nacre.Ruling, error) {
	one := waiting{q, make(chan nacre.Ruling, 1)}
	d.mu.Lock()
	d.waiting[q.ID] = one
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waiting, q.ID)
	}()
	select {
	case r := <-one.answers:
		return r, nil
	case <-ctx.Done():
		return nacre.Ruling{}, ctx.Err()
	}
}

// open are the questions that wait, with what exactly would run.
func (d *desk) open() []nacre.Question {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]nacre.Question, 0, len(d.waiting))
	for _, one := range d.waiting {
		all = append(all, one.question)
	}
	slices.SortFunc(all, func(a, b nacre.Question) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// answer passes on what somebody said to the question as it was put to them.
func (d *desk) answer(in ruling) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	one, waits := d.waiting[in.ID]
	if !waits {
		return errors.New("no such question waits")
	}
	r := nacre.Ruling{By: in.By, Digest: one.question.Digest}
	if in.Allow {
		r.Verdict = nacre.Allow
	}
	select {
	case one.answers <- r:
		return nil
	default:
		return errors.New("the question was answered already")
	}
}
