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
	"net/url"
	"path/filepath"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/person"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/socket"
)

// The control socket speaks HTTP to the installation's own user. It lies beside
// the folder that the sandbox sees, mode 0600, and is never mounted.
const (
	controlSocket = "control.sock"
	controlBody   = 64 << 10
	controlWait   = 5 * time.Second
	// pressWait is how long an answer or a stop may take, which are recorded first.
	pressWait = approval.PressLimit + controlWait
	// maxAnswer is the largest answer: all questions that may wait, with what stands between them.
	maxAnswer = approval.MaxBytes + controlBody
	// reloadWait is how long a plugin may take to be replaced: it has 10 s to start.
	reloadWait = 30 * time.Second
)

// control answers at the control socket.
type control struct {
	approvals *approval.Desk
	stop      func(why error)
	ending    context.Context //nolint:containedctx // the session's own, with which a reload ends
	reload    func(context.Context, nacre.PluginName) error
}

func (s *Session) serveControl(reload func(context.Context, nacre.PluginName) error) error {
	c := &control{approvals: s.Approvals, stop: s.Stop, ending: s.ctx, reload: reload}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /approvals", c.listApprovals)
	mux.HandleFunc("POST /approvals/{id}", c.answerApproval)
	mux.HandleFunc("POST /stop", c.stopRequest)
	mux.HandleFunc("POST /plugins/{name}/reload", c.reloadPlugin)
	return s.listen(filepath.Join(s.room, controlSocket), func(ctx context.Context, listener *net.UnixListener) error {
		server := &http.Server{Handler: mux, ReadTimeout: controlWait, WriteTimeout: controlWait, MaxHeaderBytes: controlBody, ConnContext: withPeer}
		down := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(down)
			shutDown(server)
		})
		defer stop()
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		<-down // Serve returns as soon as the shutting down begins, and nacre ends with the session
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

func (c *control) listApprovals(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, c.approvals.List())
}

func (c *control) answerApproval(w http.ResponseWriter, r *http.Request) {
	var press nacre.Press
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, controlBody))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&press); err != nil {
		reply(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	press.ID = r.PathValue("id")
	patiently(w)
	if err := vouched(r.Context(), person.Identity(press.Identity)); err != nil {
		reply(w, http.StatusForbidden, problem{Error: err.Error()})
		return
	}
	outcome, err := c.approvals.Press(press)
	if err != nil {
		reply(w, http.StatusConflict, problemOf(err))
		return
	}
	reply(w, http.StatusOK, outcome)
}

// patiently gives what is recorded first its time; the server's own is for what takes none.
func patiently(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(pressWait)) // a connection that is gone needs none
}

// problem is why a request was refused. Reason is a word of [approval.Refusals].
type problem struct {
	Error  string `json:"error"`
	Reason string `json:"reason,omitempty"`
}

func problemOf(err error) problem {
	for _, known := range approval.Refusals() {
		if errors.Is(err, known.Err) {
			return problem{err.Error(), known.Word}
		}
	}
	return problem{Error: err.Error()}
}

// refusal is what another process said of a press.
type refusal struct {
	text string
	kind error
}

func (r refusal) Error() string { return r.text }

// Unwrap gives the reason, as the desk itself gave it.
func (r refusal) Unwrap() error { return r.kind }

// err is the refusal in this process.
func (p problem) err(session nacre.SessionID) error {
	for _, known := range approval.Refusals() {
		if known.Word == p.Reason {
			return refusal{fmt.Sprintf("session %s: %s", session, p.Error), known.Err}
		}
	}
	return fmt.Errorf("session %s: %s", session, p.Error)
}

// vouched refuses a press at a terminal of another user than the one whose process
// connected. The faces of persons elsewhere vouch for them: they are the installation's own
// processes, because nobody else can open the socket.
func vouched(ctx context.Context, id person.Identity) error {
	uid, known := ctx.Value(peerKey{}).(uint32)
	if !known {
		return errors.New("it is not known whose process presses")
	}
	if id.Face() == person.Terminal && id != person.OfUser(int(uid)) {
		return fmt.Errorf("a process of uid %d cannot answer as %.80q", uid, string(id))
	}
	return nil
}

// peerKey is under which a connection's context has the uid of its other end.
type peerKey struct{}

// withPeer puts the uid of whoever connected into the context of each request.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return ctx
	}
	user, err := socket.User(unixConn)
	if err != nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, user)
}

// stopping is who wants a session to stop; the user whose process connects, where nothing
// is said.
type stopping struct {
	Identity person.Identity `json:"identity,omitempty"`
}

func (c *control) stopRequest(w http.ResponseWriter, r *http.Request) {
	var by stopping
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, controlBody)).Decode(&by); err != nil && !errors.Is(err, io.EOF) {
		reply(w, http.StatusBadRequest, problem{Error: err.Error()})
		return
	}
	if uid, known := r.Context().Value(peerKey{}).(uint32); known && by.Identity == "" {
		by.Identity = person.OfUser(int(uid))
	}
	if err := vouched(r.Context(), by.Identity); err != nil {
		reply(w, http.StatusForbidden, problem{Error: err.Error()})
		return
	}
	patiently(w)
	if err := c.approvals.Stop(by.Identity); err != nil {
		reply(w, http.StatusConflict, problemOf(err))
		return
	}
	// To end a container may take an engine seconds, and an answer has one (shutDown) once the session is told to end.
	go c.stop(ErrStopped)
	reply(w, http.StatusOK, map[string]string{"state": "stopping"})
}

// reloadPlugin replaces a plugin that the session runs (D-27).
func (c *control) reloadPlugin(w http.ResponseWriter, r *http.Request) {
	name, err := nacre.ParsePluginName(r.PathValue("name"))
	if err != nil {
		reply(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	if c.reload == nil {
		reply(w, http.StatusConflict, map[string]string{"error": "it runs no plugins"})
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(reloadWait)) // the server's own is for what takes no time
	ctx, cancel := context.WithTimeout(c.ending, reloadWait-controlWait)
	defer cancel()
	if err := c.reload(ctx, name); err != nil {
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

// Press decides one question. A refusal is the error that the session's desk gave.
func (r *Remote) Press(ctx context.Context, p nacre.Press) (nacre.Pressed, error) {
	var outcome nacre.Pressed
	return outcome, r.within(pressWait).do(ctx, http.MethodPost, "/approvals/"+url.PathEscape(p.ID), p, &outcome)
}

// Stop ends what runs in the session, for the user of this process.
func (r *Remote) Stop(ctx context.Context) error { return r.StopFor(ctx, "") }

// StopFor ends what runs in the session, for a person at another face.
func (r *Remote) StopFor(ctx context.Context, id person.Identity) error {
	return r.within(pressWait).do(ctx, http.MethodPost, "/stop", stopping{id}, nil)
}

// Reload replaces a plugin that the session runs by what its folder is now.
func (r *Remote) Reload(ctx context.Context, name nacre.PluginName) error {
	return r.within(reloadWait).do(ctx, http.MethodPost, "/plugins/"+string(name)+"/reload", nil, nil)
}

// within is the same session, which may take so long to answer.
func (r *Remote) within(limit time.Duration) *Remote {
	return &Remote{session: r.session, client: &http.Client{Transport: r.client.Transport, Timeout: limit}}
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
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return err
	}
	if len(data) > maxAnswer {
		return fmt.Errorf("session %s says more than %d bytes", r.session.ID, maxAnswer)
	}
	if response.StatusCode != http.StatusOK {
		var refused problem
		_ = json.Unmarshal(data, &refused) // an answer without one still fails below
		return refused.err(r.session.ID)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(data, answer)
}
