// Package sentence says in words what a record of the audit tells, for every face that
// shows records to a person. It promises nothing of what an agent wrote in one: whoever
// shows the sentence escapes it.
package sentence

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/receipt"
	"github.com/nacre-dev/nacre/internal/terminal"
	"github.com/nacre-dev/nacre/kernel"
)

// members are those of a record's detail. A member that is missing, or of another type,
// is empty.
type members map[string]any

func (m members) text(name string) string {
	s, _ := m[name].(string)
	if runes := []rune(s); len(runes) > maxValue {
		return string(runes[:maxValue-1]) + "…"
	}
	return s
}

func (m members) number(name string) int64 {
	n, _ := m[name].(float64) // records hold no numbers that a float cannot
	return int64(n)
}

func (m members) flag(name string) bool { yes, _ := m[name].(bool); return yes }

// size is how many bytes a value had that was measured.
func (m members) size(name string) int64 {
	measured, _ := m[name].(map[string]any)
	return members(measured).number("bytes")
}

func (m members) list(name string) string {
	values, _ := m[name].([]any)
	return listText(values)
}

// And adds a text in front of which something stands, where there is one.
func And(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

// Of says in words what a record tells (U-24). A kind without words of its own is summed up.
func Of(e audit.Entry) string {
	var d members
	if json.Unmarshal(e.Detail, &d) != nil {
		d = members{} // a record without one
	}
	if n := d.number("repeated"); n > 0 { // counted, and not written one by one
		return fmt.Sprintf("%d more records of %s come to %s%s, until %s.", n, e.Kind, e.Outcome, And(" for ", e.Reason), d.text("last"))
	}
	tool := strings.TrimPrefix(e.Topic, "tool.invoke.")
	switch e.Kind {
	case nacre.KindSessionOpen, nacre.KindSessionClose, nacre.KindChainOpen, nacre.KindChainClose:
		return lifeSentence(e, d)
	case nacre.KindSessionStop:
		return fmt.Sprintf("%s stops the session (%s).", d.text("person"), d.text("identity"))
	case nacre.KindSandboxStart:
		return fmt.Sprintf("%s is started with %s, sealed by %s; it may reach %s.",
			d.text("program"), Many(d.number("arguments"), "argument"), e.Outcome, OrNothing(d.list("egress")))
	case nacre.KindSandboxExit:
		return fmt.Sprintf("A sealed program has ended: %s.", e.Outcome)
	case nacre.KindCallBegin, nacre.KindCallEnd, nacre.KindCallReject:
		return callSentence(e, d, tool)
	case kernel.KindRepeat:
		return fmt.Sprintf("The agent calls %s once more, which was approved%s and carried out before the session was interrupted; it is not carried out again.", tool, And(" by ", d.text("by")))
	case nacre.KindApprovalAsk, nacre.KindApprovalReply, nacre.KindApprovalClaim, nacre.KindApprovalRefuse:
		return questionSentence(e, d, tool)
	case nacre.KindEgress:
		return egressSentence(e, d)
	case nacre.KindMountGrant, nacre.KindMountEnd, nacre.KindMountRefuse:
		return folderSentence(e, d)
	case nacre.KindModelBegin, nacre.KindModelEnd:
		return modelSentence(e, d)
	case nacre.KindBrainEvent:
		return brainSentence(e, d)
	case nacre.KindGateRefuse:
		return fmt.Sprintf("The gates of its role refused %s: %s.", e.Topic, strings.TrimSuffix(e.Reason, "."))
	case nacre.KindGateWarn:
		return fmt.Sprintf("The gates of its role warn of %s, which happened: %s.", e.Topic, strings.TrimSuffix(e.Reason, "."))
	case nacre.KindPlugin:
		return pluginSentence(e, d)
	case nacre.KindVerify, nacre.KindMergeIntent, nacre.KindMergeDone, nacre.KindOutcome, nacre.KindLedger:
		return workSentence(e, d)
	case nacre.KindChild:
		return childSentence(e, d)
	case nacre.KindRunKept:
		return "How far the run has come is in the store, so that another machine can carry it on."
	default:
		return describe(e)
	}
}

func childSentence(e audit.Entry, d members) string {
	switch e.Outcome {
	case receipt.ChildAsked:
		return fmt.Sprintf("%s asks for the sub-agent %s (%s); it may reach %s.", d.text("by"), d.text("child"), d.text("principal"), OrNothing(d.list("egress")))
	case receipt.ChildEnded:
		return fmt.Sprintf("The sub-agent %s has ended, %s%s: %s.", d.text("child"), d.text("state"), And(", since ", e.Reason), terminal.Dollars(d.number("micro_usd")))
	}
	return fmt.Sprintf("%s asks for a sub-agent, and is refused: %s.", d.text("by"), strings.TrimSuffix(e.Reason, "."))
}

// OrNothing is a list, or the word for an empty one.
func OrNothing(list string) string {
	if list == "" {
		return "nothing"
	}
	return list
}

// Many counts things.
func Many(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.FormatInt(n, 10) + " " + thing + "s"
}

func lifeSentence(e audit.Entry, d members) string {
	switch e.Kind {
	case nacre.KindSessionOpen:
		again := ""
		if d.flag("resumed") {
			again = ", and goes on with earlier work"
		}
		return fmt.Sprintf("The session begins (%s%s%s)%s.", d.text("kind"), And(", brain ", d.text("brain")), And(", role ", d.text("role")), again)
	case nacre.KindSessionClose:
		return fmt.Sprintf("The session ends: %s%s.", e.Outcome, And(", ", e.Reason))
	case nacre.KindChainOpen:
		return fmt.Sprintf("The chain %s begins.", d.text("chain"))
	default:
		if d.flag("sealed") {
			return "The chain ends. Its writer was killed, and a later start closed it."
		}
		return "The chain ends."
	}
}

func callSentence(e audit.Entry, d members, tool string) string {
	switch {
	case e.Kind == nacre.KindCallReject && e.Topic == "" && d.number("omitted_before") > 0:
		return fmt.Sprintf("%d more calls were refused, and are not recorded one by one.", d.number("omitted_before"))
	case e.Kind == nacre.KindCallReject:
		why := e.Reason
		for _, name := range []string{"rule", "message"} {
			if text := d.text(name); text != "" {
				why += ": " + text
				break
			}
		}
		return fmt.Sprintf("The call of %s is refused: %s.", tool, why)
	case e.Kind == nacre.KindCallBegin:
		return fmt.Sprintf("The agent calls %s with %s of arguments%s%s.", tool, Many(d.size("arguments"), "byte"), And(", approved by ", d.text("by")), And(", allowed by ", d.text("rule")))
	case e.Outcome == nacre.OutcomeError:
		return fmt.Sprintf("The call of %s fails: %s.", tool, e.Reason)
	}
	label := ""
	if l := d.text("label"); l != "" {
		label = ", which is " + l + " text"
	}
	return fmt.Sprintf("%s answers %s with %s%s%s.", e.Source, tool, Many(d.size("shown"), "byte"), label, And("; secrets were taken out of ", d.list("redacted")))
}

func questionSentence(e audit.Entry, d members, tool string) string {
	about := d.text("capability")
	if rule := d.text("rule"); rule != "" {
		about = "connecting to " + rule
	} else if folder := d.text("folder"); folder != "" {
		about = "showing the folder " + folder
	} else if tool != "" {
		about = "the call of " + tool
	}
	switch e.Kind {
	case nacre.KindApprovalAsk:
		return fmt.Sprintf("A person is asked about %s: %s.", about, e.Reason)
	case nacre.KindApprovalReply:
		return fmt.Sprintf("The answer about %s%s is: %s%s.", about, And(", by ", d.text("by")), e.Outcome, And(", ", e.Reason))
	case nacre.KindApprovalRefuse:
		if said := d.text("said"); said != "" {
			return fmt.Sprintf("An answer from the store%s decided nothing (%s): %s.", And(" to the question ", d.text("id")), e.Reason, said)
		}
		return fmt.Sprintf("A press on the question %s%s decided nothing: %s.", d.text("id"), And(" by ", d.text("identity")), e.Reason)
	default:
		return fmt.Sprintf("The question %s about %s is settled%s: %s.", d.text("id"), about, And(" by ", d.text("by")), e.Outcome)
	}
}

func folderSentence(e audit.Entry, d members) string {
	switch e.Kind {
	case nacre.KindMountGrant:
		return fmt.Sprintf("The folder %s is shown inside at %s, %s, because %s said so%s.", d.text("folder"), d.text("inside"), d.text("access"), d.text("by"), And(", until ", d.text("until")))
	case nacre.KindMountEnd:
		return fmt.Sprintf("The folder %s is not shown any more: %s.", d.text("folder"), e.Reason)
	default:
		return fmt.Sprintf("The agent asked for the folder %s, and nobody was asked about it: %s.", d.text("asked"), e.Reason)
	}
}

func egressSentence(e audit.Entry, d members) string {
	place := d.text("host")
	if port := d.number("port"); port > 0 {
		place += ":" + strconv.FormatInt(port, 10)
	}
	if path := d.text("path"); path != "" {
		place = d.text("method") + " " + place + path
	}
	to := And(" to ", place) // one that was refused unread has none
	switch e.Outcome {
	case nacre.OutcomeAllowed:
		return fmt.Sprintf("A connection%s is let through%s.", to, And(", with the credential ", d.text("credential")))
	case nacre.OutcomeDenied:
		return fmt.Sprintf("A connection%s is refused: %s.", to, e.Reason)
	default:
		return fmt.Sprintf("A connection%s is %s%s: %s sent, %s received.", to, e.Outcome, And(", ", e.Reason),
			terminal.Bytes(d.number("bytes_sent")), terminal.Bytes(d.number("bytes_received")))
	}
}

func modelSentence(e audit.Entry, d members) string {
	switch {
	case e.Kind == nacre.KindModelBegin && e.Outcome == nacre.OutcomeAllowed:
		return fmt.Sprintf("The agent asks the model %s, with %s.", d.text("model"), Many(d.number("messages"), "message"))
	case e.Kind == nacre.KindModelBegin:
		return fmt.Sprintf("A call to the model%s is refused: %s%s.", And(" ", d.text("model")), e.Reason, And(", ", d.text("why")))
	default:
		return fmt.Sprintf("The model%s answers (%s%s): %d tokens in, %d out, %s.", And(" ", d.text("model")), e.Outcome, And(", ", e.Reason),
			d.number("input_tokens"), d.number("output_tokens"), terminal.Dollars(d.number("micro_usd")))
	}
}

// brainSentence tells what an agent says of itself, which is a claim.
func brainSentence(e audit.Entry, d members) string {
	switch e.Outcome {
	case "text":
		return "The agent writes."
	case "tool_call":
		return fmt.Sprintf("The agent says that it uses %s: %s", e.Topic, d.text("summary"))
	case "tool_result":
		switch {
		case d.flag("denied"):
			return fmt.Sprintf("The agent's %s was refused inside.", e.Topic)
		case d["exit_code"] != nil:
			return fmt.Sprintf("The agent's %s ended with exit %d.", e.Topic, d.number("exit_code"))
		case d.flag("is_error"):
			return fmt.Sprintf("The agent's %s failed.", e.Topic)
		}
		return fmt.Sprintf("The agent's %s ended.", e.Topic)
	case "done":
		return "The agent ends its turn" + And(": ", d.text("text"))
	default:
		return fmt.Sprintf("The agent's turn: %s%s%s", e.Outcome, And(", ", d.text("class")), And(": ", d.text("text")))
	}
}

func pluginSentence(e audit.Entry, d members) string {
	name := d.text("plugin")
	if name == "" {
		name = e.Source
	}
	switch e.Topic {
	case "plugin.ready":
		return fmt.Sprintf("The plugin %s is ready.", name)
	case "plugin.failed":
		return fmt.Sprintf("The plugin %s cannot be started: %s", name, d.text("error"))
	case "plugin.note":
		return fmt.Sprintf("The plugin %s says: %s", name, strings.TrimSpace(d.text("stderr")))
	case "plugin.stopped":
		return fmt.Sprintf("The plugin %s has ended: %s.", name, e.Outcome)
	default:
		return fmt.Sprintf("The plugin %s: %s", name, describe(e))
	}
}

func workSentence(e audit.Entry, d members) string {
	switch e.Kind {
	case nacre.KindVerify:
		what := "A check"
		if atom := d.text("atom"); atom != "" {
			what = atom
		}
		strength := And(", ", d.text("strength"))
		if e.Outcome == "passed" {
			return fmt.Sprintf("%s held%s.", what, strength)
		}
		return fmt.Sprintf("%s did not hold%s: %s%s.", what, strength, exitText(d), e.Reason)
	case nacre.KindMergeIntent:
		return fmt.Sprintf("%s is about to move from %.7s to %.7s%s.", d.text("ref"), d.text("from"), d.text("to"), And(", by ", d.text("by")))
	case nacre.KindMergeDone:
		return fmt.Sprintf("%s at %.7s is %s.", d.text("ref"), d.text("to"), e.Outcome)
	case nacre.KindOutcome:
		return fmt.Sprintf("The work is %s%s%s: %s, %s.", e.Outcome, And(" by ", d.text("by")), And(", since ", e.Reason), Many(d.number("files"), "file"), terminal.Dollars(d.number("cost_microusd")))
	default:
		return fmt.Sprintf("The ledger has the run of %s as %s%s.", d.text("agent"), e.Outcome, And(", since ", e.Reason))
	}
}

// exitText is how a check's program ended; empty for what is no program.
func exitText(d members) string {
	switch {
	case d.flag("timed_out"):
		return "ended by its time limit"
	case d["exit_code"] != nil:
		return fmt.Sprintf("exit %d", d.number("exit_code"))
	}
	return ""
}
