package chat_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/chat"
)

// M-48: of a service that is down for a day an operator is told once, and once that it is back. Of a
// try that failed alone nobody is told.
func TestAnOutageIsToldOnce(t *testing.T) {
	t.Parallel()
	var told []string
	o := chat.Outage{Title: "Telegram", Note: func(format string, values ...any) { told = append(told, fmt.Sprintf(format, values...)) }}
	o.Lasts(time.Second)
	o.Ends()
	for range 2 {
		for failures := range 24 * int(time.Hour/chat.LongPause) {
			o.Refuses(errors.New("the Bot API said 502"))
			o.Lasts(chat.Backoff(failures))
		}
		o.Ends()
	}
	one := []string{
		"the Bot API said 502",
		"Telegram was not reached for 5m1s, and is tried again until it is: meanwhile questions are answered in terminals and on the web page",
		"Telegram is reached again, after 23h58m1s",
	}
	if !slices.Equal(told, slices.Concat(one, one)) {
		t.Errorf("have %q", told)
	}
}
