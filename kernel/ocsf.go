package kernel

import "encoding/json"

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

// OCSF is the trace as an event of the Open Cybersecurity Schema Framework,
// 1.3.0, class API Activity, for programs that read no other form (K-19). Times
// are in milliseconds. All of the trace stands in it under "unmapped".
func (t Trace) OCSF() ([]byte, error) {
	activity, severity, status := ocsfOther, ocsfInformational, ocsfStatusOK
	if t.Event == EventExpand {
		activity = ocsfRead
	}
	if t.Event == EventDeny {
		severity = ocsfMedium
	}
	if !t.Succeeded() {
		status = ocsfStatusFailed
	}
	type object = map[string]any
	about := object{"version": ocsfVersion, "uid": t.ActionID, "product": object{"name": "nacre", "vendor_name": "nacre"}}
	e := object{
		"activity_id": activity, "activity_name": t.Event, "category_uid": ocsfCategory, "class_uid": ocsfClass,
		"type_uid": ocsfClass*ocsfTypesPerAction + activity, "time": t.InvokedAt.UnixMilli(), "duration": t.Took.Milliseconds(),
		"severity_id": severity, "status_id": status, "metadata": about, "api": object{"operation": t.Capability},
		"actor":    object{"user": object{"uid": t.Principal}, "session": object{"uid": t.Session}},
		"unmapped": t,
	}
	for key, text := range map[string]string{"status_code": string(t.Reason), "status_detail": t.Error} {
		if text != "" {
			e[key] = text
		}
	}
	if t.Correlation != "" {
		about["correlation_uid"] = t.Correlation
	}
	return json.Marshal(e)
}
