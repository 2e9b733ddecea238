package mcpdriver

import (
	"context"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nacre-dev/nacre"
)

// Class classes a tool.
func (s Server) Class(tool *mcp.Tool) (nacre.SafetyClass, string, error) { return s.class(tool) }

// Sent reports what is noted of a call that was given up before it was sent: its own
// request is refused, and then the notice of that is carried.
func Sent(given context.Context, url string) (bool, error) {
	ctx, trip := withTrip(given)
	bounded := &boundedTrip{next: http.DefaultTransport}
	for _, ctx := range []context.Context{ctx, context.WithoutCancel(ctx)} {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
		if err != nil {
			return false, err
		}
		response, err := bounded.RoundTrip(request)
		if err == nil {
			_ = response.Body.Close()
		}
	}
	return trip.sent.Load(), nil
}
