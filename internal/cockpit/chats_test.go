package cockpit_test

import (
	"testing"

	"github.com/nacre-dev/nacre/internal/cockpit"
	"github.com/nacre-dev/nacre/plugin"
)

// M-46, M-47: the identity of a press is made of the plugin's own channel. One that is called like
// a face of the host's, like no service, or that names somebody at another service, presses nothing
// and pairs nobody. Nothing is even looked up.
func TestAPluginSpeaksForItsOwnChannel(t *testing.T) {
	t.Parallel()
	chats := cockpit.NewChats(nil, nil)
	for _, c := range [][2]string{
		{"terminal", "0"}, {"web", "0"}, {"local", "42"}, {"", "telegram:42"}, {"telegram", "discord:42"}, {"telegram", ""}, {"telegram", "042"},
		{"telegram", "ada"}, {"telegram", "-42"}, {"slack", "U045EF6GH"}, {"slack:T012AB3CD", "U045EF6GH"}, {"telegram:4", "2"}, {"Telegram", "42"},
	} {
		if _, err := chats.Press(t.Context(), c[0], plugin.Press{Channel: "telegram", User: c[1], Button: "x"}); err == nil {
			t.Errorf("%q presses for %q", c[0], c[1])
		}
		if code, err := chats.Pair(t.Context(), c[0], plugin.Pairing{Channel: "telegram", User: c[1]}); err == nil || code != "" {
			t.Errorf("%q pairs %q", c[0], c[1])
		}
	}
}
