package audit

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
)

var errNoIndex = fmt.Errorf("%w: the index chain is missing, without which a deleted chain would not be found", ErrTampered)

// indexView is what the signed part of the index says of the other chains.
type indexView struct {
	report Report
	events map[string][]event
	order  []string
	ring   ring
}

type event struct {
	registration
	kind nacre.Kind
	at   uint64      // its place in the index
	cut  *checkpoint // of a chain.prune
}

// readIndex verifies the index chain and what its signed part says. Records
// after its head are linked but not vouched for, so they say nothing; they are
// signed with the next entry.
func readIndex(root string, o VerifyOptions) (*indexView, error) {
	dir := filepath.Join(root, IndexChain)
	if _, err := os.Stat(dir); err != nil {
		return nil, errNoIndex
	}
	if len(o.PublicKey) != ed25519.PublicKeySize {
		return nil, errNoKey
	}
	head, err := readHead(root, IndexChain)
	if err != nil {
		return nil, fmt.Errorf("index chain: %w", asTampered(err))
	}
	v, err := newVerification(dir, IndexChain, VerifyOptions{PublicKey: o.PublicKey, MACKey: o.MACKey, Head: o.IndexHead})
	if err != nil {
		return nil, err
	}
	view := &indexView{events: map[string][]event{}}
	if err = v.mark(head); err == nil {
		err = v.run(nil)
	}
	if err == nil {
		err = v.checkRing(head)
	}
	if err != nil {
		return nil, fmt.Errorf("index chain: %w", err)
	}
	view.report, view.ring = v.report, v.ring
	return view, view.collect(v.entries, head.Seq)
}

// checkRing checks that the trusted key is one of the succession that the
// index tells, and that the heads are signed by the key in use at their place.
// Each key vouches for the next by its signature, and the head for all before.
func (v *verification) checkRing(head Head) error {
	if v.ring.find(hex.EncodeToString(v.o.PublicKey)) < 0 {
		return fmt.Errorf("%w: it begins with key %.64q and never came to the trusted key", ErrTampered, v.ring.links[0].hex)
	}
	for _, h := range []*Head{&head, v.o.Head} {
		if h == nil {
			continue
		}
		if err := v.ring.verify(*h, h.Seq, h.Seq); err != nil {
			return err
		}
	}
	return nil
}

func (x *indexView) collect(entries []Entry, signed uint64) error {
	for _, e := range entries {
		var own opening
		if e.Seq > signed || e.Seq == 0 || e.Kind == KindKeyRotate ||
			e.Kind == nacre.KindChainOpen && strictUnmarshal(e.Detail, &own) == nil && own.Chain == IndexChain {
			continue
		}
		d, err := parseEvent(e)
		if err != nil {
			return fmt.Errorf("index chain: %w", err)
		}
		if len(x.events[d.Chain]) == 0 {
			x.order = append(x.order, d.Chain)
		}
		x.events[d.Chain] = append(x.events[d.Chain], d)
	}
	return nil
}

// RootReport is what a verification of all chains found.
type RootReport struct {
	Index  Report   `json:"index"`
	Chains []Report `json:"chains"`
	// Unregistered are the names beside the chains that the index does not know.
	Unregistered []string `json:"unregistered,omitempty"`
}

// VerifyAll checks the index, and every chain that is registered in it or
// stands beside it. Its error joins those of the chains that are not proven.
func VerifyAll(root string, o VerifyOptions) (RootReport, error) {
	o.Head = nil // one chain's head says nothing of the others
	beside, err := namesBeside(root)
	if err != nil {
		return RootReport{}, asTampered(err)
	}
	moment := indexMoment(root)
	index, err := readIndex(root, o) // after the names: what is whole by now is in it
	if err != nil {
		err = asTampered(err)
		return RootReport{Index: Report{Chain: IndexChain, Problem: err.Error()}}, err
	}
	all := RootReport{Index: index.report, Unregistered: index.strangers(beside)}
	var errs []error
	for _, chain := range slices.Concat(index.order, all.Unregistered) {
		dir, err := chainDir(root, chain)
		if err != nil {
			errs = append(errs, fmt.Errorf("%w: a stranger beside the chains: %w", ErrTampered, err))
			continue
		}
		if len(index.events[chain]) == 0 && isEmpty(dir) || o.Copy.lacks(index.events[chain], dir) {
			continue
		}
		r, err := verifyTwice(dir, chain, o, index)
		if err != nil && indexMoment(root) != moment { // it may have been closed since
			r, err = steady(root, func() (Report, error) { return verifyWithIndex(root, chain, o) })
		}
		all.Chains = append(all.Chains, r)
		errs = append(errs, err)
	}
	return all, errors.Join(errs...)
}

// maxLooks is how often a verification that failed looks again.
const maxLooks = 3

// steady repeats a check that failed while chains were being opened and
// closed: what it compared may not have been of one moment.
func steady(root string, check func() (Report, error)) (report Report, err error) {
	for range maxLooks {
		before := indexMoment(root)
		if report, err = check(); err == nil || before == indexMoment(root) {
			return report, err
		}
	}
	return report, err
}

// indexMoment differs whenever a chain was opened or closed in between.
func indexMoment(root string) string {
	data, err := disk.Read(filepath.Join(root, IndexChain, headFile), maxHead)
	if err != nil {
		return "" // the check finds it too
	}
	return string(data)
}

// isEmpty reports whether a folder holds nothing but perhaps a lock: a chain
// that nothing was written to.
func isEmpty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() != lockFile })
}

// namesBeside lists what stands beside the index.
func namesBeside(root string) ([]string, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if entry.Name() != IndexChain {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// strangers are those of the names that the index does not know.
func (x *indexView) strangers(names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return len(x.events[name]) > 0 })
}
