package zmtp_test

import (
	"bytes"
	"testing"

	"github.com/nacre-dev/nacre/internal/zmtp"
)

// What is appended for a peer of either version is read back.
func TestSubscriptions(t *testing.T) {
	for _, v := range []zmtp.Version{{Major: 3}, {Major: 3, Minor: 1}, {Major: 4}} {
		for _, prefix := range []string{"", "ci.", "\x00\x01", string(bytes.Repeat([]byte{'p'}, 255))} {
			for _, on := range []bool{true, false} {
				item, err := reader(zmtp.AppendSubscription(nil, v, prefix, on)).Next()
				have, is, ok := zmtp.Subscription(item)
				if err != nil || !ok || is != on || string(have) != prefix {
					t.Errorf("%v: have %q, %v, %v, %v, want %q, %v", v, have, is, ok, err, prefix, on)
				}
				if isCommand := item.Command != ""; isCommand == (v == zmtp.Version{Major: 3}) {
					t.Errorf("%v: have a command: %v", v, isCommand)
				}
			}
		}
	}
}

func TestWhatIsNoSubscription(t *testing.T) {
	for name, frames := range map[string][]byte{
		"an empty message":  zmtp.AppendMessage(nil, nil),
		"another byte":      zmtp.AppendMessage(nil, []byte("\x02ci")),
		"two parts":         zmtp.AppendMessage(nil, []byte("\x01ci"), nil),
		"another command":   zmtp.AppendCommand(nil, zmtp.Ping, []byte("\x01ci")),
		"one in lower case": zmtp.AppendCommand(nil, "subscribe", []byte("ci")),
	} {
		item, err := reader(frames).Next()
		if prefix, _, ok := zmtp.Subscription(item); err != nil || ok {
			t.Errorf("%s: have %q, %v, want no subscription", name, prefix, err)
		}
	}
}

func TestThePeersVersionIsKnownAfterItsGreeting(t *testing.T) {
	greeting := zmtp.AppendGreeting(nil)
	greeting[11] = 0
	r := reader(greeting)
	if have := r.Peer(); have != (zmtp.Version{}) {
		t.Errorf("have %v before the greeting", have)
	}
	if err := r.Greeting(); err != nil {
		t.Fatal(err)
	}
	if have := r.Peer(); have != (zmtp.Version{Major: 3}) {
		t.Errorf("have %v, want 3.0", have)
	}
}
