package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/registry"
)

// The control socket speaks HTTP to the installation's own user. It lies beside
// the folder that the sandbox sees, mode 0600, and is never mounted.
const (
	controlSocket = "control.sock"
	controlBody   = 64 << 10
	controlWait   = 5 * time.Second
	// reloadWait is how long a plugin may take to be replaced: it has 10 s to start.
	reloadWait = 30 * time.Second
)

func (s *Session) serveControl() error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /approvals", s.listApprovals)
	mux.HandleFunc("POST /approvals/{id}", s.answerApproval)
	mux.HandleFunc("POST /stop", s.stopRequest)
	mux.HandleFunc("POST /plugins/{name}/reload", s.reloadPlugin)
	return s.listen(filepath.Join(s.room, controlSocket), func(ctx context.Context, listener *net.UnixListener) error {
		server := &http.Server{Handler: mux, ReadTimeout: controlWait, WriteTimeout: controlWait, MaxHeaderBytes: controlBody}
		stop := context.AfterFunc(ctx, func() { shutDown(server) })
		defer stop()
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
}

// shutDown lets an answer that is being written arrive, such as the one to a stop.
func shutDown(server *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close() // it had its second
	}
}

func (s *Session) listApprovals(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, s.Approvals.List())
}

func (s *Session) answerApproval(w http.ResponseWriter, r *http.Request) {
	var ruling nacre.Ruling
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, controlBody))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&ruling); err != nil {
		reply(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	if err := s.Approvals.Answer(r.PathValue("id"), ruling); err != nil {
		reply(w, http.StatusConflict, map[string]string{"error": err.Error()})
		return
	}
	reply(w, http.StatusOK, map[string]string{"verdict": ruling.Verdict.String()})
}

func (s *Session) stopRequest(w http.ResponseWriter, _ *http.Request) {
	s.Stop(ErrStopped)
	reply(w, http.StatusOK, map[string]string{"state": "stopping"})
}

// reloadPlugin replaces a plugin that the session runs (D-27).
func (s *Session) reloadPlugin(w http.ResponseWriter, r *http.Request) {
	name, err := nacre.ParsePluginName(r.PathValue("name"))
	if err != nil {
		reply(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	if s.reload == nil {
		reply(w, http.StatusConflict, map[string]string{"error": "it runs no plugins"})
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(reloadWait)) // the server's own is for what takes no time
	ctx, cancel := context.WithTimeout(s.ctx, reloadWait-controlWait)
	defer cancel()
	if err := s.reload(ctx, name); err != nil {
		reply(w, http.StatusConflict, map[string]string{"error": err.Error()})
		return
	}
	reply(w, http.StatusOK, map[string]string{"state": "reloaded"})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the other end may be gone
}

// Remote is a session that another process holds.
type Remote struct {
	session registry.Session
	client  *http.Client
}

// Dial returns the control side of a live session.
func Dial(s registry.Session) (*Remote, error) {
	if s.Sockets == "" || !s.Live() {
		return nil, fmt.Errorf("session %s is not running: it is %s", s.ID, s.State)
	}
	path := filepath.Join(s.Sockets, controlSocket)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}, DisableKeepAlives: true}
	return &Remote{session: s, client: &http.Client{Transport: transport, Timeout: controlWait}}, nil
}

// Approvals lists the questions that wait in the session.
func (r *Remote) Approvals(ctx context.Context) ([]nacre.Question, error) {
	var questions []nacre.Question
	return questions, r.do(ctx, http.MethodGet, "/approvals", nil, &questions)
}

// Answer decides one question.
func (r *Remote) Answer(ctx context.Context, id string, ruling nacre.Ruling) error {
	return r.do(ctx, http.MethodPost, "/approvals/"+id, ruling, nil)
}

// Stop ends what runs in the session.
func (r *Remote) Stop(ctx context.Context) error {
	return r.do(ctx, http.MethodPost, "/stop", nil, nil)
}

// Reload replaces a plugin that the session runs by what its folder is now.
func (r *Remote) Reload(ctx context.Context, name nacre.PluginName) error {
	patient := *r
	patient.client = &http.Client{Transport: r.client.Transport, Timeout: reloadWait}
	return patient.do(ctx, http.MethodPost, "/plugins/"+string(name)+"/reload", nil, nil)
}

func (r *Remote) do(ctx context.Context, method, path string, body, answer any) error {
	var payload io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		payload = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://session"+path, payload)
	if err != nil {
		return err
	}
	response, err := r.client.Do(request)
	if err != nil {
		return fmt.Errorf("session %s does not answer: %w", r.session.ID, err)
	}
	defer func() { _ = response.Body.Close() }() // read to its end or given up
	data, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		var problem struct{ Error string }
		_ = json.Unmarshal(data, &problem) // an answer without one still fails below
		return fmt.Errorf("session %s: %s", r.session.ID, problem.Error)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(data, answer)
}
