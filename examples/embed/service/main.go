// Command service puts a kernel behind HTTP: agents call tools, an operator answers
// questions, hands out grants, takes them back, and changes the rules.
//
//	service -dir DIR [-listen 127.0.0.1:0]
//
// AGENT_KEY and OPERATOR_KEY in the environment are who may call what. The first line
// that it prints is its address. SIGTERM lets calls finish.
package main

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"example.com/embed/shop"
	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/grant"
	"github.com/nacre-dev/nacre/kernel"
)

const (
	// maxBody is the largest request, in bytes.
	maxBody = 1 << 20
	// drain is how long calls have to finish.
	drain = 10 * time.Second
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() (err error) {
	dir, listen := flag.String("dir", "", "where what outlasts the process is kept"), flag.String("listen", "127.0.0.1:0", "the address")
	flag.Parse()
	agent, operator := os.Getenv("AGENT_KEY"), os.Getenv("OPERATOR_KEY")
	if *dir == "" || agent == "" || operator == "" {
		return errors.New("service: -dir, AGENT_KEY and OPERATOR_KEY are needed")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	persons := newDesk()
	s, err := shop.Open(ctx, *dir, "service", persons)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: routes(s, persons, agent, operator), ReadHeaderTimeout: drain}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Println("http://" + listener.Addr().String())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	return errors.Join(err, server.Shutdown(late), s.Close(late))
}

func routes(s *shop.Shop, persons *desk, agent, operator string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /call", only(agent, answered(func(r *http.Request, in callRequest) (any, error) { return call(r.Context(), s, in) })))
	mux.Handle("POST /task", only(operator, answered(func(_ *http.Request, in taskRequest) (any, error) { return nil, in.tell(s) })))
	mux.Handle("POST /grants", only(operator, answered(func(r *http.Request, in grantRequest) (any, error) { return in.hand(r.Context(), s) })))
	mux.Handle("POST /revoke", only(operator, answered(func(_ *http.Request, in grantRequest) (any, error) { return nil, s.Revoke(in.ID) })))
	mux.Handle("POST /reload", only(operator, answered(func(*http.Request, struct{}) (any, error) { return nil, s.Reload() })))
	mux.Handle("GET /questions", only(operator, answered(func(*http.Request, struct{}) (any, error) { return persons.open(), nil })))
	mux.Handle("POST /answers", only(operator, answered(func(_ *http.Request, in ruling) (any, error) { return nil, persons.answer(in) })))
	return mux
}

// callRequest is what an agent sends; who it is comes from its key, never from here.
type callRequest struct {
	Session   nacre.SessionID
	Tool      nacre.ToolName
	Arguments json.RawMessage
}

// reply is what an agent is answered with.
type reply struct {
	Result json.RawMessage `json:"result"`
	Shape  nacre.Shape     `json:"shape"`
	Handle *nacre.Handle   `json:"handle,omitempty"`
}

func call(ctx context.Context, s *shop.Shop, in callRequest) (any, error) {
	o, err := s.Call(ctx, nacre.Call{Principal: shop.Agent(in.Session), Tool: in.Tool, Arguments: in.Arguments, Traced: true})
	log.Printf("%s in %s: %v by %s", in.Tool, in.Session, o.Decision.Verdict, o.Decision.Rule) // the rule is for us, not for the agent
	return reply{o.Result, o.Shape, o.Handle}, err
}

// taskRequest is what the operator wants an agent to do: by it the kernel knows which
// values are the operator's own.
type taskRequest struct {
	Session nacre.SessionID
	Text    string
}

func (in taskRequest) tell(s *shop.Shop) error {
	key := nacre.KeyOf(shop.Group, in.Session)
	return s.Observe(key, nacre.Source{Provenance: nacre.SeenOperator, Name: "the task"}, in.Text)
}

// grantRequest is a grant that the operator hands to another program, or takes back.
type grantRequest struct {
	Session       nacre.SessionID
	Capability    nacre.CapabilityID
	Justification string
	ID            string
}

func (in grantRequest) hand(ctx context.Context, s *shop.Shop) (any, error) {
	token, err := s.Grant(ctx, kernel.GrantRequest{Capability: in.Capability}, shop.Agent(in.Session), in.Justification)
	if err != nil {
		return nil, err
	}
	text, err := grant.Text(token)
	return map[string]string{"id": token.ID, "token": text}, err
}

// only lets in who has the key.
func only(key string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+key)) != 1 {
			http.Error(w, "the key is not good for this", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// answered reads one JSON value, and writes one. A refusal is shown whole, of any other
// error nothing.
func answered[In any](do func(*http.Request, In) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&in); err != nil && !errors.Is(err, io.EOF) {
			http.Error(w, "the body is not the JSON that this takes", http.StatusBadRequest)
			return
		}
		out, err := do(r, in)
		var refusal *nacre.Refusal
		switch {
		case errors.As(err, &refusal):
			w.WriteHeader(http.StatusForbidden)
			out = refusal
		case err != nil:
			log.Print(err)
			http.Error(w, "this did not work", http.StatusInternalServerError)
			return
		}
		if err := json.NewEncoder(w).Encode(out); err != nil {
			log.Print(err)
		}
	})
}
