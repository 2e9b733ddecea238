package container

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"
)

const (
	// apiMajor and apiMinor are the newest version of the Engine API that is spoken. An engine that
	// speaks an older one is spoken to in that.
	apiMajor, apiMinor = 1, 56
	// minMinor is the oldest: what it says of memory, masks and mounts is what is
	// asked for here.
	minMinor = 40
	// maxAnswer is the largest answer of an engine that is read, in bytes.
	maxAnswer = 16 << 20
)

// errNotFound is what an engine says of a container or an image that it does not have.
var errNotFound = errors.New("not found")

// engine speaks Docker's API with an engine on a socket of this machine: the dozen
// calls that a sandbox needs. The client of its authors brings a thousand, and what
// those stand on would be a millisecond of every start of nacre (P-01).
type engine struct {
	socket string
	http   *http.Client
	prefix string // of the version that both speak; empty until it is known
}

// dial connects to nothing yet. Only a socket of this machine can be an engine's:
// binds are of this machine's files.
func dial(socket string) (*engine, error) {
	info, err := os.Stat(socket)
	if err != nil {
		return nil, fmt.Errorf("engine: %w: start it, or name its socket under [sandbox] in config.toml", err)
	}
	if info.Mode().Type() != os.ModeSocket {
		return nil, fmt.Errorf("engine: %s is not a socket", socket)
	}
	e := &engine{socket: socket}
	e.http = &http.Client{
		Transport: &http.Transport{
			DisableCompression: true,
			DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return e.connect(ctx) },
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return e, nil
}

func (e *engine) connect(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", e.socket)
}

// Close ends what is idle.
func (e *engine) Close() error {
	e.http.CloseIdleConnections()
	return nil
}

// agree finds the version of the API that both speak.
func (e *engine) agree(ctx context.Context) error {
	answer, err := e.send(ctx, http.MethodGet, "/_ping", nil, nil)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // read-only
	major, minor, ok := strings.Cut(answer.Header.Get("Api-Version"), ".")
	spoken, err := strconv.Atoi(minor)
	if !ok || err != nil || major != strconv.Itoa(apiMajor) || spoken < minMinor {
		return fmt.Errorf("the engine speaks version %.20q of its API, which is older than %d.%d", answer.Header.Get("Api-Version"), apiMajor, minMinor)
	}
	e.prefix = fmt.Sprintf("/v%d.%d", apiMajor, min(spoken, apiMinor))
	return nil
}

// request makes one for a path of the agreed version.
func (e *engine) request(ctx context.Context, method, path string, query url.Values, body any) (*http.Request, error) {
	var text io.Reader = http.NoBody
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		text = bytes.NewReader(encoded)
	}
	address := url.URL{Scheme: "http", Host: "engine", Path: e.prefix + path, RawQuery: query.Encode()}
	r, err := http.NewRequestWithContext(ctx, method, address.String(), text)
	if err == nil && body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, err
}

// send returns an answer that says that it was done. Its body has to be closed.
func (e *engine) send(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
	r, err := e.request(ctx, method, path, query, body)
	if err != nil {
		return nil, err
	}
	answer, err := e.http.Do(r)
	if err != nil {
		return nil, err
	}
	if err := refused(answer); err != nil {
		return nil, errors.Join(err, answer.Body.Close())
	}
	return answer, nil
}

// refused is what an engine says of what it did not do.
func refused(answer *http.Response) error {
	if answer.StatusCode < http.StatusBadRequest && answer.StatusCode >= http.StatusOK || answer.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxLog)) // what there is of it
	var said struct{ Message string }
	if json.Unmarshal(text, &said) != nil || said.Message == "" {
		said.Message = answer.Status
	}
	err := errors.New("the engine says: " + printable(strings.TrimSpace(said.Message)))
	if answer.StatusCode == http.StatusNotFound {
		err = fmt.Errorf("%w: %w", err, errNotFound)
	}
	return err
}

// call sends a request and reads its answer into the value, if there is one.
func (e *engine) call(ctx context.Context, method, path string, query url.Values, body, into any) error {
	if e.prefix == "" {
		if err := e.agree(ctx); err != nil {
			return err
		}
	}
	answer, err := e.send(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // read-only
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil || into == nil:
		return err
	case len(text) > maxAnswer:
		return errors.New("the engine's answer is too large")
	}
	return json.Unmarshal(text, into)
}

func of(name string) string { return "/containers/" + name }

func (e *engine) about(ctx context.Context) (info system.Info, err error) {
	return info, e.call(ctx, http.MethodGet, "/info", nil, nil, &info)
}

// inspected is what is asked of an image.
type inspected struct {
	ID          string `json:"Id"`
	RepoDigests []string
	Config      *struct {
		Env     []string
		Volumes map[string]struct{}
	}
}

func (e *engine) image(ctx context.Context, name string) (found inspected, err error) {
	return found, e.call(ctx, http.MethodGet, "/images/"+name+"/json", nil, nil, &found)
}

// creation is all that an engine is asked for.
type creation struct {
	name string
	container.CreateRequest
}

func (e *engine) create(ctx context.Context, c creation) error {
	return e.call(ctx, http.MethodPost, "/containers/create", url.Values{"name": {c.name}}, c.CreateRequest, nil)
}

func (e *engine) start(ctx context.Context, name string) error {
	return e.call(ctx, http.MethodPost, of(name)+"/start", nil, nil, nil)
}

// wait returns when a container does not run any more, or that cannot be known.
func (e *engine) wait(ctx context.Context, name string) error {
	return e.call(ctx, http.MethodPost, of(name)+"/wait", url.Values{"condition": {string(container.WaitConditionNotRunning)}}, nil, nil)
}

func (e *engine) inspect(ctx context.Context, name string) (c container.InspectResponse, err error) {
	return c, e.call(ctx, http.MethodGet, of(name)+"/json", nil, nil, &c)
}

func (e *engine) kill(ctx context.Context, name string) error {
	return e.call(ctx, http.MethodPost, of(name)+"/kill", url.Values{"signal": {"SIGKILL"}}, nil, nil)
}

func (e *engine) unpause(ctx context.Context, name string) error {
	return e.call(ctx, http.MethodPost, of(name)+"/unpause", nil, nil, nil)
}

// remove ends a container and takes its volumes with it.
func (e *engine) remove(ctx context.Context, name string) error {
	return e.call(ctx, http.MethodDelete, of(name), url.Values{"force": {"1"}, "v": {"1"}}, nil, nil)
}

func (e *engine) resize(ctx context.Context, name string, height, width uint) error {
	size := url.Values{"h": {strconv.FormatUint(uint64(height), 10)}, "w": {strconv.FormatUint(uint64(width), 10)}}
	return e.call(ctx, http.MethodPost, of(name)+"/resize", size, nil, nil)
}

// attached are a container's streams, both ways.
type attached struct {
	net.Conn
	Reader *bufio.Reader
}

// CloseWrite tells the container that there is no more input.
func (a attached) CloseWrite() error {
	half, ok := a.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.New("the connection cannot be closed in one direction")
	}
	return half.CloseWrite()
}

// attach takes hold of a container's streams. The connection outlives ctx.
func (e *engine) attach(ctx context.Context, name string, input bool) (a attached, err error) {
	query := url.Values{"stream": {"1"}, "stdout": {"1"}, "stderr": {"1"}}
	if input {
		query.Set("stdin", "1")
	}
	r, err := e.request(ctx, http.MethodPost, of(name)+"/attach", query, nil)
	if err != nil {
		return a, err
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "tcp")
	conn, err := e.connect(ctx)
	if err != nil {
		return a, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	reader := bufio.NewReader(conn)
	err = upgrade(conn, reader, r)
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		return a, errors.Join(err, conn.Close())
	}
	return attached{conn, reader}, nil
}

func upgrade(conn net.Conn, reader *bufio.Reader, r *http.Request) error {
	if err := r.Write(conn); err != nil {
		return err
	}
	answer, err := http.ReadResponse(reader, r) //nolint:bodyclose // what follows is the streams themselves
	if err != nil {
		return err
	}
	if err := refused(answer); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("the engine gave no streams: %s", answer.Status)
	}
	return nil
}
