package assembly

import (
	"context"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/leasing"
	"github.com/nacre-dev/nacre/internal/signin"
)

type (
	// Credential is what a person is told of a credential; it holds no value.
	Credential = leasing.Kept
	// CredentialAddition is a credential that a person adds.
	CredentialAddition = leasing.Addition
	// CredentialOrphan is a lease that its session did not give back.
	CredentialOrphan = lease.Orphan
	// CredentialLease is a lease that was not given back; it holds no value.
	CredentialLease = lease.Held
	// CredentialChange is what came of adding or removing one.
	CredentialChange = leasing.Change
	// SignInRequest is for whom a person signs in.
	SignInRequest = signin.Request
	// SignedIn is what came of a sign-in, or of its end; it holds no token.
	SignedIn = signin.Done
)

// Credentials are those of the config, with how old their values are (M-37).
func Credentials(ctx context.Context, r *Runtime) []Credential { return leasing.List(ctx, r.inst) }

// TryCredentials reads the values of the named credentials, or of all, and shows none.
func TryCredentials(ctx context.Context, r *Runtime, names []string) ([]Finding, error) {
	return leasing.Try(ctx, r.inst, names)
}

// AddCredential asks for a value, keeps it and lets config.toml say where it is.
func AddCredential(ctx context.Context, r *Runtime, a CredentialAddition, ask func() (nacre.Secret, error)) (CredentialChange, error) {
	return leasing.Add(ctx, r.inst, a, ask)
}

// RotateCredential puts a new value in the place of a credential's.
func RotateCredential(ctx context.Context, r *Runtime, name string, ask func() (nacre.Secret, error)) (Credential, error) {
	return leasing.Rotate(ctx, r.inst, name, ask)
}

// RemoveCredential takes a credential out of the config, and its value away.
func RemoveCredential(ctx context.Context, r *Runtime, name string) (CredentialChange, error) {
	return leasing.Remove(ctx, r.inst, name)
}

// ProbeCredentials mints each credential that is minted once, and revokes it.
func ProbeCredentials(ctx context.Context, r *Runtime) []Finding { return leasing.Probe(ctx, r.inst) }

// SweepCredentials takes back what sessions that are gone left (M-31).
func SweepCredentials(ctx context.Context, r *Runtime) ([]CredentialOrphan, error) {
	return leasing.Sweep(ctx, r.inst)
}

// CredentialLeases are those of all machines that were not given back.
func CredentialLeases(ctx context.Context, r *Runtime) ([]CredentialLease, error) {
	return leasing.Held(ctx, r.inst)
}

// SignInAtServer has a person sign in at the authorization server of an MCP server (M-36).
func SignInAtServer(ctx context.Context, r *Runtime, name string, request SignInRequest) (SignedIn, error) {
	return signin.SignIn(ctx, r.inst, name, request)
}

// SignOutOfServer revokes a sign-in, and takes its file away.
func SignOutOfServer(ctx context.Context, r *Runtime, name string) (SignedIn, error) {
	return signin.SignOut(ctx, r.inst, name)
}
