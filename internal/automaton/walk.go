package automaton

// A step has to wait for the one before it, which is most of what it takes. So a long text is
// walked at four places at once. Each begins as far before its stretch as a keyword may be long,
// and so finds all that end in it.
const (
	lanes = 4
	// longStretch is how many bytes one place walks at a time at most, shortStretch how many of the
	// longest keyword they are at least. dense is how often keywords may end in them where that is
	// worth it. Where more do, calm stretches are walked byte by byte.
	longStretch, shortStretch = 512, 3
	dense, calm               = 32, 8 * lanes
)

// end is a place where keywords end: how many bytes of a stretch were walked then.
type end struct{ after, state uint16 }

// laneEnds are those of one lane.
type laneEnds struct {
	at [dense]end
	n  int
}

// Walk tells found of each place of the text where keywords end, in order, and of which
// those are. What found returns is a place up to which no keyword need be told any more
// that begins before it: it may be told nevertheless.
func (a *Machine) Walk(text string, found func(end int, words []Hit) (skip int)) {
	state, at := uint16(0), 0
	for {
		stretch := min((len(text)-at)/lanes, longStretch)
		if stretch < shortStretch*a.longest {
			break
		}
		var told [lanes]laneEnds
		next, ok := a.abreast(text[at:at+lanes*stretch], state, &told)
		if !ok {
			state, at = a.along(text, state, at, min(at+calm*stretch, len(text)), found)
			continue
		}
		from := at
		state, at = next, at+lanes*stretch
		for lane := range told {
			for _, e := range told[lane].at[:told[lane].n] {
				if skip := found(from+lane*stretch+int(e.after), a.Found(e.state)); skip > at {
					state, at = 0, skip
				}
			}
		}
	}
	a.along(text, state, at, len(text), found)
}

// along walks a text from at up to limit, byte by byte.
func (a *Machine) along(text string, state uint16, at, limit int, found func(end int, words []Hit) (skip int)) (uint16, int) {
	for at < limit {
		state = a.Step(state, text[at])
		at++
		if state < ends {
			continue
		}
		if skip := found(at, a.Found(state)); skip > at {
			state, at = 0, skip
		}
	}
	return state, at
}

// abreast walks all lanes of a text and returns the state at its end. It is not ok
// where more keywords end than a lane has room for.
func (a *Machine) abreast(text string, first uint16, told *[lanes]laneEnds) (last uint16, ok bool) {
	stretch := len(text) / lanes
	var s1, s2, s3 uint16
	for i := stretch - a.longest + 1; i < stretch; i++ {
		s1, s2, s3 = a.Step(s1, text[i]), a.Step(s2, text[i+stretch]), a.Step(s3, text[i+2*stretch])
	}
	s0, t0, t1, t2, t3 := first, text[:stretch], text[stretch:][:stretch], text[2*stretch:][:stretch], text[3*stretch:][:stretch]
	for i := range len(t0) { // all of them are as long, which the compiler sees
		s0, s1, s2, s3 = a.Step(s0, t0[i]), a.Step(s1, t1[i]), a.Step(s2, t2[i]), a.Step(s3, t3[i])
		if (s0|s1|s2|s3)&ends == 0 {
			continue
		}
		for lane, state := range [lanes]uint16{s0, s1, s2, s3} {
			if state&ends != 0 && !told[lane].add(end{uint16(i + 1), state}) {
				return 0, false
			}
		}
	}
	return s3, true
}

func (l *laneEnds) add(e end) bool {
	if l.n == dense {
		return false
	}
	l.at[l.n] = e
	l.n++
	return true
}
