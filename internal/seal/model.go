package seal

import (
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/tripwire"
)

// overhear tells the kernel what the brain's own tools have read: it is in what
// goes to the model, and nowhere else (K-26).
func (s *Session) overhear(body []byte) {
	project := nacre.SeenUntrusted
	// What the vendor finds on the web is in what goes to the model too.
	searched := len(s.Inst.Config.VendorTools(s.Group())) > 0
	if slices.Contains(s.Inst.Config.TrustedProjects, s.project) && s.project != "" && !searched {
		project = nacre.SeenTrusted
	}
	s.Watch.Seen(body, tripwire.InModel)
	if err := s.Kernel.ObserveModelRequest(s.Key(), body, project); err != nil {
		s.Stop(err) // what cannot be followed must not go on
	}
}
