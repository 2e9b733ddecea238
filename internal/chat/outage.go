package chat

import "time"

// outageAfter is for how long a service is not reached before an operator is told.
const outageAfter = 5 * time.Minute

// Outage is for how long a service was not reached, by what was waited between the tries: no clock
// that jumps counts. It is not for concurrent use.
type Outage struct {
	Title string // of the service
	// Note tells the operator something.
	Note func(format string, values ...any)
	away time.Duration
	told bool
	said string // by the service, when it said no
}

// Refuses says that the service said no. An operator is told what it said, once.
func (o *Outage) Refuses(err error) {
	if said := err.Error(); said != o.said {
		o.said = said
		o.Note("%s", said)
	}
}

// Lasts says that a try failed, and after how long the next one comes. An operator is told once.
func (o *Outage) Lasts(pause time.Duration) {
	if o.away += pause; o.told || o.away < outageAfter {
		return
	}
	o.told = true
	o.Note("%s was not reached for %s, and is tried again until it is: meanwhile questions are answered in terminals and on the web page", o.Title, o.away)
}

// Ends says that the service is reached. Whoever was told of the outage is told of its end.
func (o *Outage) Ends() {
	if o.told {
		o.Note("%s is reached again, after %s", o.Title, o.away)
	}
	o.away, o.told, o.said = 0, false, ""
}
