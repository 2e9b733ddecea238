package policy

import (
	"slices"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
)

// The default rates of the seed, per principal and capability (K-04).
const (
	RateWindow       = time.Minute
	ReadRate         = 60
	WriteRate        = 10
	DestructiveRate  = 2
	ServiceFactor    = 10
	ServiceRole      = "service"
	MaxRateKeys      = 1 << 16
	maxCallsInWindow = 1 << 16
)

// Rates are how many calls there may be, of all capabilities together (K-35, D-12). They are those
// of one principal of a group in all of its sessions, of a whole group, and of one session. Each
// that is zero sets no limit beside that of each capability.
type Rates struct {
	Principal, Group, Session nacre.RateLimit
}

// RateKey is whose calls are counted together. They are those of one principal of a group with one
// capability, in however many sessions (K-04), or with all of them where Capability is empty. Where
// Principal is empty, too, they are those of a whole group, or of one Session of it (K-35). It is a
// struct because joined strings collide.
type RateKey struct {
	Principal  string
	Group      nacre.Group
	Session    nacre.SessionID
	Capability nacre.CapabilityID
}

// Rate is how many calls of one key there may be.
type Rate struct {
	Key   RateKey
	Limit nacre.RateLimit
}

// Counter counts the calls of several processes together, by a clock of its own.
// Implementations are safe for concurrent use, and answer in a time of their own.
type Counter interface {
	// Count gives the place of a rate that has no call left, and how long to wait until it has one.
	// A wait of zero says that all have. With take it then counts one call of each, and else none.
	// An error means that nobody can tell.
	Count(rates []Rate, take bool) (over int, wait time.Duration, err error)
}

// RateOf is the limit of a capability for a principal: what the capability
// declares, else its class's default, ten times that for services.
func RateOf(c nacre.Capability, p nacre.Principal) nacre.RateLimit {
	if c.Rate.Calls > 0 && c.Rate.Window > 0 {
		return c.Rate
	}
	limit := nacre.RateLimit{Calls: DestructiveRate, Window: RateWindow}
	switch c.Safety {
	case nacre.Read:
		limit.Calls = ReadRate
	case nacre.Write:
		limit.Calls = WriteRate
	case nacre.Destructive:
	}
	if slices.Contains(p.Roles, ServiceRole) {
		limit.Calls *= ServiceFactor
	}
	return limit
}

// Limiter counts calls in sliding windows. A call at t counts while t > now −
// window, whatever becomes of it; one that Take refuses does not. The zero value is ready; safe for
// concurrent use. At most MaxRateKeys windows are kept, and a further one is
// refused until others have run out.
type Limiter struct {
	// Rates are what all calls of a group together may be, beside the limit that Take is
	// given; nil sets none. It is set before the limiter is used, and is called at once.
	Rates func(nacre.Group) Rates
	// Together counts, in the place of this limiter, what several processes count together:
	// all but the calls of one session, which is one process's. Nil is none. It is set before
	// the limiter is used.
	Together Counter

	mu      sync.Mutex
	windows map[RateKey]window
}

type window struct {
	calls  []time.Time
	length time.Duration
}

// Count is what a [Counter] does, with the calls of other processes where Together counts
// them. What one rate refuses may count for others.
func (l *Limiter) Count(rates []Rate, now time.Time, take bool) (over int, wait time.Duration, err error) {
	if l.Together != nil {
		all := slices.DeleteFunc(slices.Clone(rates), ofSession)
		if over, wait, err = l.Together.Count(all, take); err != nil || wait > 0 {
			return slices.Index(rates, all[over]), wait, err
		}
	}
	count := l.Wait
	if take {
		count = l.Take
	}
	for i, r := range rates {
		if l.Together != nil && !ofSession(r) {
			continue
		}
		if wait := count(r.Key, r.Limit, now); wait > 0 {
			return i, wait, nil
		}
	}
	return 0, 0, nil
}

// ofSession tells what no other process counts.
func ofSession(r Rate) bool { return r.Key.Session != "" }

// Take counts one call of this process, or returns how long to wait until one would be
// counted. Zero means that the call was counted.
func (l *Limiter) Take(key RateKey, limit nacre.RateLimit, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	w, wait := l.look(key, limit, now)
	if wait > 0 {
		return wait
	}
	w.calls, w.length = append(w.calls, now), limit.Window
	l.windows[key] = w
	return 0
}

// Wait is how long Take would have to wait now; it counts nothing.
func (l *Limiter) Wait(key RateKey, limit nacre.RateLimit, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, wait := l.look(key, limit, now)
	return wait
}

func (l *Limiter) look(key RateKey, limit nacre.RateLimit, now time.Time) (window, time.Duration) {
	if limit.Calls < 1 || limit.Window <= 0 {
		return window{}, max(limit.Window, RateWindow) // an unusable limit allows nothing
	}
	if l.windows == nil {
		l.windows = make(map[RateKey]window)
	}
	w, known := l.windows[key]
	if !known && len(l.windows) >= MaxRateKeys {
		if l.sweep(now); len(l.windows) >= MaxRateKeys {
			return w, limit.Window
		}
	}
	w.calls = live(w.calls, now.Add(-limit.Window))
	if over := len(w.calls) - min(limit.Calls, maxCallsInWindow); over >= 0 {
		return w, max(w.calls[over].Add(limit.Window).Sub(now), 1)
	}
	return w, 0
}

// live drops the calls that have left the window. They stand in order but for
// clocks that went back, which then count longer, not shorter.
func live(calls []time.Time, since time.Time) []time.Time {
	for len(calls) > 0 && !calls[0].After(since) {
		calls = calls[1:]
	}
	return calls
}

func (l *Limiter) sweep(now time.Time) {
	for key, w := range l.windows {
		if len(live(w.calls, now.Add(-w.length))) == 0 {
			delete(l.windows, key)
		}
	}
}
