package assembly

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/nacre-dev/nacre/internal/agent"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/login"
)

// maxTokenInput is the most that is read where a person gives a token, in bytes.
const maxTokenInput = 64 << 10

// LoginStatus is what a person is told of a vendor's login (U-02). It holds no token.
type LoginStatus struct {
	Vendor string `json:"vendor"`
	// Kept says that there is a login, Used that the config lets the gateway use it.
	Kept bool `json:"kept"`
	Used bool `json:"used"`
	// Refreshes says that nacre gets the next token by itself.
	Refreshes bool      `json:"refreshes"`
	Expires   time.Time `json:"expires,omitzero"`
	// Wrong says why it cannot be used; empty where it can.
	Wrong string `json:"wrong,omitempty"`
}

// Logins are the vendors' logins that nacre holds, and those that it could hold.
func Logins(r *Runtime) []LoginStatus {
	store := login.New(r.inst.Registry.Paths().Logins())
	var all []LoginStatus
	for _, v := range login.Vendors() {
		s := LoginStatus{Vendor: string(v), Used: r.inst.Config.Model.Subscribed()}
		l, err := store.Load(v)
		s.Kept = !errors.Is(err, fs.ErrNotExist)
		if err != nil && s.Kept {
			s.Wrong = err.Error()
		} else if why := l.Wrong(r.inst.Options.Now()); why != "" {
			s.Wrong = fmt.Sprintf("%s: run nacre login %s again", why, v)
		}
		s.Refreshes, s.Expires = !l.Refresh.Empty(), l.Expires
		all = append(all, s)
	}
	return all
}

// checkLogins says what of subscription logins works here. Whether one may be used so is for the
// vendor's terms to say, and an API key works in any case (U-02).
func checkLogins(r *Runtime) (all []Finding) {
	const terms = "the vendor's terms say whether a subscription may be used so"
	key := map[string]string{string(login.Claude): "ANTHROPIC_API_KEY", string(login.Codex): "OPENAI_API_KEY"}
	for _, l := range Logins(r) {
		f := Finding{Name: "login", Status: "warn", Fix: "without a login an API key works: export " + key[l.Vendor] + "=…"}
		switch {
		case !l.Kept && !l.Used:
			continue
		case !l.Kept:
			f.Text = "none is kept: nacre login " + l.Vendor + " signs in; " + terms
		case l.Wrong != "":
			f.Text = l.Wrong
		case !l.Used:
			f.Text = "it is kept and not used until login = \"subscription\" stands under [model] in config.toml; " + terms
		case l.Vendor == string(login.Codex):
			f.Text = "it is used; that the vendor's service answers a gateway that uses it was not seen; " + terms
		default:
			f.Status, f.Text = "ok", "it is used; "+terms
		}
		f.Text = l.Vendor + ": " + f.Text
		all = append(all, f)
	}
	return all
}

// SignIn has the vendor's own program log in, in a folder that only nacre uses, and
// keeps the login.
func SignIn(ctx context.Context, r *Runtime, vendor string, in io.Reader, out, errs io.Writer) error {
	v, err := login.Parse(vendor)
	if err != nil {
		return &config.Error{Err: err}
	}
	store := login.New(r.inst.Registry.Paths().Logins())
	home, done, err := store.SigningIn(ctx, v)
	if err != nil {
		return r.inst.Writable(err)
	}
	data, err := brain.SignIn(ctx, vendor, agent.Brains(r.inst, ""), home, brain.Streams{In: in, Out: out, Err: errs})
	if err = errors.Join(err, done()); err != nil {
		return &installation.NotReady{What: "login", Err: err}
	}
	l, err := login.Read(v, data)
	if err != nil {
		return &installation.NotReady{What: "login", Err: err}
	}
	return r.inst.Writable(store.Keep(ctx, v, l))
}

// KeepToken keeps a long-lived token, as claude setup-token prints it.
func KeepToken(ctx context.Context, r *Runtime, vendor string, in io.Reader) error {
	if vendor != string(login.Claude) {
		return config.Errorf("--token is for claude: %q has no long-lived token", vendor)
	}
	text, err := io.ReadAll(io.LimitReader(in, maxTokenInput))
	if err != nil {
		return err
	}
	l, err := login.Token(string(text))
	if err != nil {
		return &config.Error{Err: err}
	}
	return r.inst.Writable(login.New(r.inst.Registry.Paths().Logins()).Keep(ctx, login.Claude, l))
}

// SignOut forgets the vendor's login on this machine.
func SignOut(ctx context.Context, r *Runtime, vendor string) error {
	v, err := login.Parse(vendor)
	if err != nil {
		return &config.Error{Err: err}
	}
	err = login.New(r.inst.Registry.Paths().Logins()).Remove(ctx, v)
	if errors.Is(err, fs.ErrNotExist) {
		return config.Errorf("there is no login of %s", v)
	}
	return r.inst.Writable(err)
}
