package demo_test

import (
	"encoding/json"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/demo"
)

func entry(kind nacre.Kind, topic, outcome, detail string) audit.Entry {
	return audit.Entry{Record: nacre.Record{Kind: kind, Topic: topic, Outcome: outcome, Detail: json.RawMessage(detail)}}
}

// A table that cannot say "it was not tried" or "it got through" proves nothing.
func TestTheTableSaysWhatTheRecordsSay(t *testing.T) {
	for name, row := range demo.Judge(nil) {
		if row != [2]any{false, ""} {
			t.Errorf("%s without any record: %v", name, row)
		}
	}
	through := demo.Judge([]audit.Entry{
		entry(nacre.KindSandboxStart, "", "native", `{"mounts":["rw /workspace = /srv/p","ro /home/agent/.ssh = /root/.ssh"]}`),
		entry(nacre.KindBrainEvent, "shell", "tool_result", `{"summary":"cat ~/.ssh/id_ed25519","exit_code":0}`),
		entry(nacre.KindBrainEvent, "shell", "tool_result", `{"summary":"echo x > .git/hooks/post-checkout","exit_code":0}`),
		entry(nacre.KindEgress, "", nacre.OutcomeAllowed, `{"host":"collector.example"}`),
		entry(nacre.KindCallBegin, "tool.invoke.complete_reminder", nacre.OutcomeAllowed, `{}`),
		entry(nacre.KindApprovalAsk, "tool.invoke.delete_reminder", "", `{}`),
		entry(nacre.KindCallBegin, "tool.invoke.delete_reminder", nacre.OutcomeAllowed, `{}`),
		entry(nacre.KindCallEnd, "tool.invoke.list_reminders", nacre.OutcomeRouted, `{}`),
	})
	for name, row := range through {
		if row != [2]any{true, ""} {
			t.Errorf("%s with records of its success: %v", name, row)
		}
	}
}
