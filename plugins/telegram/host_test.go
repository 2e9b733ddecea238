package main_test

import (
	"io"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre/internal/chat/chattest"
	telegram "github.com/nacre-dev/nacre/plugins/telegram"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a handler over a data folder. ticket is empty where no channels are served.
func start(t testing.TB, f *fake, dir, ticket string) *chattest.Host {
	t.Helper()
	return chattest.Start(t, func(in io.Reader, out io.Writer, waited func(time.Duration)) error {
		return telegram.Serve(in, out, func(string) string { return f.URL }, waited)
	}, chattest.Options{Channel: "telegram", Config: `{"api":"http://api.test"}`, Dir: dir, Ticket: ticket, Secrets: map[string]string{"token": token}})
}
