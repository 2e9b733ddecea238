// Command gateway is an MCP server over stdio in front of a kernel. The client sees the tools that
// its group may use, and every call is checked, recorded and redacted first.
//
//	gateway -dir DIR
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"example.com/embed/shop"
	"github.com/nacre-dev/nacre"
)

const (
	// session is the one of a client: the process is its own.
	session nacre.SessionID = "mcp"
	// drain is how long calls have to finish.
	drain = 10 * time.Second
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() (err error) {
	dir := flag.String("dir", "", "where what outlasts the process is kept")
	flag.Parse()
	if *dir == "" {
		return errors.New("gateway: -dir is needed")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := shop.Open(ctx, *dir, "gateway", nil) // nobody is there to be asked: what is asked is refused
	if err != nil {
		return err
	}
	defer func() {
		late, cancel := context.WithTimeout(context.Background(), drain)
		defer cancel()
		err = errors.Join(err, s.Close(late))
	}()
	server := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)
	for _, c := range s.Catalog(shop.Agent(session)) {
		server.AddTool(&mcp.Tool{Name: string(c.Tool), Description: c.Description, InputSchema: c.Schema}, handler(s, c.Tool))
	}
	if err := server.Run(ctx, &mcp.StdioTransport{}); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// handler carries out a tool. A refusal is a result that the model can react to; of any
// other error it learns nothing.
func handler(s *shop.Shop, tool nacre.ToolName) mcp.ToolHandler {
	return func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		outcome, err := s.Call(ctx, nacre.Call{Principal: shop.Agent(session), Tool: tool, Arguments: r.Params.Arguments})
		var refusal *nacre.Refusal
		switch {
		case errors.As(err, &refusal):
			said, err := json.Marshal(refusal)
			return &mcp.CallToolResult{IsError: true, Content: text(said)}, err
		case err != nil:
			log.Print(err)
			return nil, errors.New("the call could not be carried out")
		}
		return &mcp.CallToolResult{Content: text(outcome.Result)}, nil
	}
}

func text(b []byte) []mcp.Content { return []mcp.Content{&mcp.TextContent{Text: string(b)}} }
