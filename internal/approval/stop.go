package approval

import (
	"context"
	"encoding/json"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/person"
)

// Stop tells whether a person may stop the session, and records who did or who was
// refused (M-41). A stop that cannot be recorded is one all the same: it takes nothing but
// what runs.
func (d *Desk) Stop(id person.Identity) error {
	who, err := d.who(id)
	if err == nil {
		err = who.Stop(d.o.Group)
	}
	if err != nil {
		d.refuse(nacre.Press{ID: "stop", Identity: string(id)}, err)
		return err
	}
	if d.o.Recorder == nil || d.o.Now == nil {
		return nil
	}
	detail, err := json.Marshal(map[string]string{"person": who.Name, "identity": string(id), "face": string(id.Face())})
	if err != nil {
		detail = nil // texts can be written
	}
	ctx, cancel := context.WithTimeout(context.Background(), recordLimit)
	defer cancel()
	_ = d.o.Recorder.Commit(ctx, nacre.Record{Kind: nacre.KindSessionStop, Source: "approval", Time: d.o.Now(), Outcome: nacre.OutcomeAllowed, Detail: detail})
	return nil
}
