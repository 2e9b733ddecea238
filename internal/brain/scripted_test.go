package brain_test

import (
	"net/http"
	"strings"

	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/scriptedmodel"
)

// script makes the choices one by one. What is said before the last choice is
// said with the call that follows, since a turn of words alone ends the
// conversation.
func script(choices []brain.Choice) scriptedmodel.Script {
	var s scriptedmodel.Script
	var turn scriptedmodel.Turn
	for _, c := range choices {
		if c.Tool == "" {
			turn.Text = c.Say
			continue
		}
		turn.Tools = []scriptedmodel.Tool{scripted(c)}
		s.Turns = append(s.Turns, turn)
		turn = scriptedmodel.Turn{}
	}
	if turn.Text != "" {
		s.Turns = append(s.Turns, turn)
	}
	return s
}

func scripted(c brain.Choice) scriptedmodel.Tool {
	return scriptedmodel.Tool{Name: c.Tool, Raw: string(c.Input)}
}

func choosing(choices []brain.Choice) http.Handler { return scriptedmodel.New(script(choices)) }

// seenBy is all that a model was sent.
func seenBy(s *scriptedmodel.Server) string {
	var all []string
	for _, r := range s.Requests() {
		all = append(all, string(r.Body))
	}
	return strings.Join(all, "\n")
}
