package kernel

import (
	"strconv"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/wire"
	"github.com/nacre-dev/nacre/policy"
)

// detail is what a record tells beyond the fields that all records have. Its members are written in
// the order of their names, so that a chain finds it canonical already. Arguments, results and the
// agent's words are in it by size and digest only. A chain refuses records that are too large, so
// what is listed is cut.
type detail struct{ wire.Summary }

func newDetail() detail { return detail{wire.NewSummary()} }

func (d *detail) attempts(name string, all []Attempt) {
	wire.Objects(&d.Summary, name, all, func(a Attempt) {
		d.Text("cause", a.Cause)
		d.Text("driver_id", a.Driver)
	})
}

func (d *detail) origins(name string, all []nacre.Origin) {
	if len(all) == 0 {
		return
	}
	d.Key(name)
	d.Summary = append(d.Summary, '[')
	start := len(d.Summary)
	for i, o := range all {
		d.Element(i)
		if i == wire.MaxListed || len(d.Summary)-start > wire.MaxListedBytes {
			d.Text("argument", "…")
			d.Summary = append(d.Summary, '}')
			break
		}
		d.Text("argument", o.Argument)
		d.Text("provenance", o.Provenance.String())
		d.List("sources", o.Sources)
		d.Summary = append(d.Summary, '}')
	}
	d.Summary = append(d.Summary, ']')
}

// request is what is kept of a request, so that another policy can be held
// against it later (K-06): the JSON of a [policy.Recorded].
func (d *detail) request(name string, r policy.Recorded) {
	d.Key(name)
	d.Summary = append(d.Summary, '{')
	d.List("allowed_fields", r.AllowedFields)
	wire.Members(&d.Summary, "arguments", r.Arguments)
	wire.Members(&d.Summary, "attributes", r.Attributes)
	d.Flag("behavioural", r.Behavioural)
	d.Text("capability", string(r.Capability))
	d.Text("channel", r.Channel)
	d.Text("group", string(r.Group))
	d.Flag("high_risk", r.HighRisk)
	d.Text("intent", r.Intent)
	d.Key("justification")
	d.Summary = strconv.AppendInt(d.Summary, int64(r.Justification), 10)
	d.Flag("partial", r.Partial)
	d.Text("principal", r.Principal)
	wire.MembersOf(&d.Summary, "provenance", r.Provenance, nacre.Provenance.String)
	d.Flag("read_untrusted", r.ReadUntrusted)
	d.List("roles", r.Roles)
	d.Text("safety_class", r.Safety.String())
	wire.Members(&d.Summary, "scope", r.Scope)
	d.Text("sensitivity", r.Sensitivity.String())
	d.Flag("tainted", r.Tainted)
	d.Text("tool", string(r.Tool))
	d.Summary = append(d.Summary, '}')
}
