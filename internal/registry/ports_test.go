package registry_test

import (
	"context"
	"testing"

	"github.com/nacre-dev/nacre/internal/registry"
)

// U-06: what nacre listens on is known as its own, for as long as it does.
func TestAPortIsNacresWhileSomebodyClaimsIt(t *testing.T) {
	paths := registry.Paths{Runtime: t.TempDir()}
	owned := func(want bool) {
		t.Helper()
		if have, err := paths.OwnsPort(3000); have != want || err != nil {
			t.Fatalf("have %t, %v", have, err)
		}
	}
	owned(false)
	first, endFirst := context.WithCancel(t.Context())
	second, endSecond := context.WithCancel(t.Context())
	defer endSecond()
	for _, ctx := range []context.Context{first, second} {
		if err := paths.ClaimPort(ctx, 3000); err != nil {
			t.Fatal(err)
		}
	}
	owned(true)
	if have, err := paths.OwnsPort(3001); have || err != nil {
		t.Errorf("another port: have %t, %v", have, err)
	}
	endFirst()
	owned(true)
}
