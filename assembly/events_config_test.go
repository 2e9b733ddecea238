package assembly_test

import (
	"strings"
	"testing"
)

// D-32, D-33: what the config says of messages and of outsiders is exact.
func TestRoutesAndEventsOfTheConfig(t *testing.T) {
	route := func(more string) string { return "[[route]]\nchannel = \"local\"\ngroup = \"family\"\n" + more + "\n" }
	publisher := func(name, more string) string {
		return "[events.publishers." + name + "]\ngroup = \"main\"\ntopics = [\"" + name + ".\"]\n" + more + "\n"
	}
	for text, want := range map[string]string{
		route(""): "",
		route("sender = \"ada\"\nsession = \"resume\"\noperator = true") + route("chat = \"kitchen\"\nsession = \"explicit\"") + route(""): "",
		route("") + route(""):                                                         "keep one",
		route("sender = \"a\"\nchat = \"b\""):                                         "not both",
		route("session = \"forever\""):                                                "fresh, resume or explicit",
		route("user = \"ada\""):                                                       "route.user",
		route("operator = \"yes\""):                                                   "operator",
		"[[route]]\nchannel = \"local\"":                                              "group",
		"[[route]]\ngroup = \"main\"":                                                 "channel",
		"[events]":                                                                    "",
		"[events]\npublish = \"ipc\"":                                                 "",
		"[events]\npublish = \"tcp://127.0.0.1:5556\"":                                "",
		"[events]\npublish = \"tcp://192.0.2.1:5556\"":                                "open = true",
		"[events]\npublish = \"tcp://192.0.2.1:5556\"\nopen = true":                   "",
		"[events]\npublish = \"5556\"":                                                "write ipc",
		"[events]\nlisten = \"ipc\"":                                                  "events.listen",
		publisher("ci", "listen = \"ipc\"") + publisher("cd", "listen = \"ipc\""):     "",
		publisher("ci", ""):                                                           "listen is missing",
		publisher("ci", "listen = \"tcp://0.0.0.0:1\""):                               "open = true",
		publisher("ci", "listen = \"tcp://0.0.0.0:1\"\nopen = true"):                  "",
		publisher("core", "listen = \"ipc\""):                                         "no word of the core's",
		publisher("CI", "listen = \"ipc\""):                                           "lower-case",
		publisher("ci", "listen = \"ipc\"\nsource = \"core\""):                        "events.publishers.ci.source",
		"[events.publishers.ci]\nlisten = \"ipc\"\ntopics = [\"ci.\"]":                "group",
		"[events.publishers.ci]\nlisten = \"ipc\"\ngroup = \"main\"":                  "topics",
		"[events.publishers.ci]\nlisten = \"ipc\"\ngroup = \"main\"\ntopics = [\"\"]": "every topic",
		publisher("ci", "listen = \"tcp://127.0.0.1:9\"") + publisher("cd", "listen = \"tcp://127.0.0.1:9\""):      "[events.publishers.cd] and [events.publishers.ci] are both at",
		"[events]\npublish = \"tcp://127.0.0.1:9\"\n" + publisher("ci", "listen = \"tcp://[::ffff:127.0.0.1]:9\""): "are both at",
	} {
		_, err := load(t, text)
		if want == "" && err != nil {
			t.Errorf("%q: have %v, want it to load", text, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: have %v, want it to name %q", text, err, want)
		}
	}
}
