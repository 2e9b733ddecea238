package metering

import (
	"context"
	"net/http"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/login"
	"github.com/nacre-dev/nacre/internal/model"
)

// loginOf gives the tokens of the vendor's subscription login to the gateway (U-02).
func loginOf(inst *installation.Installation, v login.Vendor) (model.Login, error) {
	transport := model.Transport()
	if err := inst.Config.Egress.Outward(transport, inst.Options.Getenv); err != nil {
		return nil, &config.Error{Err: err}
	}
	s := login.Source{
		Store: login.New(inst.Registry.Paths().Logins()), Vendor: v, Endpoint: login.Endpoint(v), Now: inst.Options.Now,
		Client: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	if other := inst.Config.Model.LoginURL; other != "" {
		_, path, _ := strings.Cut(strings.TrimPrefix(s.Endpoint, "https://"), "/")
		s.Endpoint = other + "/" + path
	}
	return func(ctx context.Context, rejected nacre.Secret) (model.Credential, error) {
		l, err := s.Token(ctx, rejected)
		if err != nil {
			return model.Credential{}, err
		}
		return model.Credential{Key: l.Access, Account: l.Account}, nil
	}, nil
}
