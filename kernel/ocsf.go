package kernel

import (
	"encoding/json"
	"time"

	"github.com/nacre-dev/nacre"
)

// The numbers of OCSF 1.3.0 that an exported trace uses: API Activity.
const (
	ocsfVersion        = "1.3.0"
	ocsfCategory       = 6
	ocsfClass          = 6003
	ocsfRead           = 2
	ocsfOther          = 99
	ocsfInformational  = 1
	ocsfMedium         = 3
	ocsfStatusOK       = 1
	ocsfStatusFailed   = 2
	ocsfTypesPerAction = 100
)

type (
	ocsfEvent struct {
		Activity     int              `json:"activity_id"`
		ActivityName Event            `json:"activity_name"`
		Category     int              `json:"category_uid"`
		Class        int              `json:"class_uid"`
		Type         int              `json:"type_uid"`
		Time         int64            `json:"time"`
		Duration     int64            `json:"duration"`
		Severity     int              `json:"severity_id"`
		Status       int              `json:"status_id"`
		StatusCode   nacre.ReasonCode `json:"status_code,omitempty"`
		StatusDetail string           `json:"status_detail,omitempty"`
		Metadata     ocsfMetadata     `json:"metadata"`
		Actor        ocsfActor        `json:"actor"`
		API          ocsfAPI          `json:"api"`
		Unmapped     Trace            `json:"unmapped"`
	}
	ocsfMetadata struct {
		Version     string      `json:"version"`
		UID         string      `json:"uid"`
		Correlation string      `json:"correlation_uid,omitempty"`
		Product     ocsfProduct `json:"product"`
	}
	ocsfProduct struct {
		Name   string `json:"name"`
		Vendor string `json:"vendor_name"`
	}
	ocsfActor struct {
		User    ocsfUID `json:"user"`
		Session ocsfUID `json:"session"`
	}
	ocsfUID struct {
		UID string `json:"uid"`
	}
	ocsfAPI struct {
		Operation nacre.CapabilityID `json:"operation"`
	}
)

// OCSF is the trace as an event of the Open Cybersecurity Schema Framework,
// 1.3.0, class API Activity, for programs that read no other form (K-19). Times
// are in milliseconds. All of the trace stands in it under "unmapped".
func (t Trace) OCSF() ([]byte, error) {
	e := ocsfEvent{
		Activity: ocsfOther, ActivityName: t.Event, Category: ocsfCategory, Class: ocsfClass,
		Time: t.InvokedAt.UnixMilli(), Duration: int64(t.Took / time.Millisecond), Severity: ocsfInformational, Status: ocsfStatusOK,
		StatusCode: t.Reason, StatusDetail: t.Error,
		Metadata: ocsfMetadata{Version: ocsfVersion, UID: t.ActionID, Correlation: string(t.Correlation), Product: ocsfProduct{"nacre", "nacre"}},
		Actor:    ocsfActor{ocsfUID{t.Principal}, ocsfUID{string(t.Session)}}, API: ocsfAPI{t.Capability}, Unmapped: t,
	}
	if t.Event == EventExpand {
		e.Activity = ocsfRead
	}
	if t.Event == EventDeny {
		e.Severity = ocsfMedium
	}
	if !t.Succeeded() {
		e.Status = ocsfStatusFailed
	}
	e.Type = ocsfClass*ocsfTypesPerAction + e.Activity
	return json.Marshal(e)
}
