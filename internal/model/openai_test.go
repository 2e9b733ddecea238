package model_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/model"
)

var (
	inResponses = speeches[1]
	inChat      = speeches[2]
)

// items is a call of Responses with these items; parts one whose one message has these parts.
func items(s string) string { return `{"model":"gpt-5.1","input":[` + s + `]}` }

func parts(s string) string { return items(`{"role":"user","content":[` + s + `]}`) }

// M-04: of Responses only what the client holds and runs itself is let through.
func TestWhatResponsesRefuses(t *testing.T) {
	tool := func(s string) string { return inResponses.call(`"tools":[` + s + `],`) }
	tests := map[string]refused{
		"an item reference":               {items(`{"type":"item_reference","id":"rs_1"}`), model.ReasonContentBlock},
		"an item with an id alone":        {items(`{"id":"rs_1"}`), model.ReasonContentBlock},
		"an item nobody knows":            {items(`{"type":"hologram"}`), model.ReasonContentBlock},
		"an item without a type":          {items(`{"content":"x"}`), model.ReasonContentBlock},
		"a type of null":                  {items(`{"type":null,"role":"user","content":"x"}`), model.ReasonContentBlock},
		"a compaction":                    {items(`{"type":"compaction","encrypted_content":"x"}`), model.ReasonContentBlock},
		"a vendor's tool in an item":      {items(`{"type":"additional_tools","role":"developer","tools":[{"type":"web_search"}]}`), model.ReasonVendorTool},
		"one in a namespace in an item":   {items(`{"type":"additional_tools","role":"developer","tools":[{"type":"namespace","name":"n","tools":[{"type":"mcp","server_url":"https://evil.test"}]}]}`), model.ReasonVendorTool},
		"a search for tools in an item":   {items(`{"type":"additional_tools","role":"developer","tools":[{"type":"tool_search"}]}`), model.ReasonVendorTool},
		"tools in an item of the user":    {items(`{"type":"additional_tools","role":"user","tools":[]}`), model.ReasonField},
		"tools in an item of nobody":      {items(`{"type":"additional_tools","tools":[]}`), model.ReasonField},
		"a field beside tools in an item": {items(`{"type":"additional_tools","role":"developer","tools":[],"server_url":"https://evil.test"}`), model.ReasonField},
		"tools in an item that are none":  {items(`{"type":"additional_tools","role":"developer","tools":{}}`), model.ReasonMalformed},
		"a field of an item":              {items(`{"role":"user","content":"x","url":"https://evil.test"}`), model.ReasonField},
		"a role nobody knows":             {items(`{"role":"root","content":"x"}`), model.ReasonField},
		"an image by address":             {parts(`{"type":"input_image","image_url":"https://evil.test/?secret"}`), model.ReasonRemoteSource},
		"an image by another address":     {parts(`{"type":"input_image","image_url":"file:///etc/passwd"}`), model.ReasonRemoteSource},
		"an image by a short address":     {parts(`{"type":"input_image","image_url":"data:"}`), model.ReasonRemoteSource},
		"an image that names others":      {parts(`{"type":"input_image","image_url":"data:image/SVG+xml;base64,PHN2Zz4="}`), model.ReasonRemoteSource},
		"data that is no image":           {parts(`{"type":"input_image","image_url":"data:text/html,x"}`), model.ReasonRemoteSource},
		"an address with a space before":  {parts(`{"type":"input_image","image_url":" https://evil.test"}`), model.ReasonRemoteSource},
		"an address by escapes":           {parts(`{"type":"input_image","image_url":"\u0068ttps://evil.test"}`), model.ReasonRemoteSource},
		"an address in an object":         {parts(`{"type":"input_image","image_url":{"url":"https://evil.test"}}`), model.ReasonMalformed},
		"no address":                      {parts(`{"type":"input_image"}`), model.ReasonMalformed},
		"an image by file":                {parts(`{"type":"input_image","file_id":"f","image_url":"data:image/png;base64,AA"}`), model.ReasonRemoteSource},
		"a file":                          {parts(`{"type":"input_file","file_data":"AA"}`), model.ReasonRemoteSource},
		"a file by id":                    {parts(`{"type":"input_file","file_id":"f"}`), model.ReasonRemoteSource},
		"a file by address":               {parts(`{"type":"input_file","file_url":"https://evil.test"}`), model.ReasonRemoteSource},
		"a file id in a text":             {parts(`{"type":"input_text","text":"x","file_id":"f"}`), model.ReasonRemoteSource},
		"sound":                           {parts(`{"type":"input_audio","input_audio":{"data":"AA"}}`), model.ReasonContentBlock},
		"a part nobody knows":             {parts(`{"type":"hologram"}`), model.ReasonContentBlock},
		"a part without a type":           {parts(`{"text":"x"}`), model.ReasonContentBlock},
		"a text that is an object":        {parts(`{"type":"input_text","text":{"url":"x"}}`), model.ReasonMalformed},
		"a citation":                      {items(`{"role":"assistant","content":[{"type":"output_text","text":"x","annotations":[{"type":"container_file_citation","file_id":"f"}]}]}`), model.ReasonField},
		"an image in a tool's result":     {items(`{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":"https://evil.test"}]}`), model.ReasonRemoteSource},
		"a file in a tool's result":       {items(`{"type":"function_call_output","call_id":"c","output":[{"type":"input_file","file_id":"f"}]}`), model.ReasonRemoteSource},
		"a file in a freeform result":     {items(`{"type":"custom_tool_call_output","call_id":"c","output":[{"type":"input_file","file_url":"u"}]}`), model.ReasonRemoteSource},
		"a result that is an object":      {items(`{"type":"function_call_output","call_id":"c","output":{"type":"input_file"}}`), model.ReasonMalformed},
		"a part hidden in a reasoning":    {items(`{"type":"reasoning","summary":[{"type":"input_image","image_url":"u"}]}`), model.ReasonContentBlock},
		"a shell at the vendor, called":   {items(`{"type":"shell_call","call_id":"c","action":{},"environment":{"type":"container_reference","container_id":"x"}}`), model.ReasonVendorTool},
		"a file of a shell":               {items(`{"type":"shell_call_output","call_id":"c","output":[{"stdout":"x","file_id":"f"}]}`), model.ReasonField},

		"a tool without a type":         {tool(`{"name":"x"}`), model.ReasonVendorTool},
		"a tool type in another case":   {tool(`{"type":"Function","name":"x"}`), model.ReasonVendorTool},
		"a tool type of null":           {tool(`{"type":null,"name":"x"}`), model.ReasonVendorTool},
		"a tool without a name":         {tool(`{"type":"function"}`), model.ReasonMalformed},
		"a field of a tool":             {tool(`{"type":"function","name":"x","server_url":"https://evil.test"}`), model.ReasonField},
		"a shell at the vendor":         {tool(`{"type":"shell","environment":{"type":"container_auto"}}`), model.ReasonVendorTool},
		"a shell somewhere":             {tool(`{"type":"shell"}`), model.ReasonVendorTool},
		"a shell with skills":           {tool(`{"type":"shell","environment":{"type":"local","skills":[{"type":"skill_reference"}]}}`), model.ReasonField},
		"a vendor's tool in a space":    {tool(`{"type":"namespace","name":"n","tools":[{"type":"function","name":"a"},{"type":"web_search"}]}`), model.ReasonVendorTool},
		"a space in a space":            {tool(`{"type":"namespace","name":"n","tools":[{"type":"namespace","name":"m","tools":[{"type":"mcp"}]}]}`), model.ReasonField},
		"a grammar by address":          {tool(`{"type":"custom","name":"x","format":{"type":"grammar","url":"https://evil.test"}}`), model.ReasonField},
		"a choice of a vendor's tool":   {inResponses.call(`"tool_choice":{"type":"web_search"},`), model.ReasonVendorTool},
		"a choice of mcp":               {inResponses.call(`"tool_choice":{"type":"mcp","server_label":"x"},`), model.ReasonVendorTool},
		"a vendor's tool allowed":       {inResponses.call(`"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"code_interpreter"}]},`), model.ReasonVendorTool},
		"a choice that is a number":     {inResponses.call(`"tool_choice":5,`), model.ReasonMalformed},
		"in the background":             {inResponses.call(`"background":true,`), model.ReasonStored},
		"in the background, by a text":  {inResponses.call(`"background":"true",`), model.ReasonStored},
		"an answer before":              {inResponses.call(`"previous_response_id":"resp_1",`), model.ReasonStored},
		"a conversation":                {inResponses.call(`"conversation":{"id":"conv_1"},`), model.ReasonStored},
		"a conversation by its id":      {inResponses.call(`"conversation":"conv_1",`), model.ReasonStored},
		"a prompt's template":           {inResponses.call(`"prompt":{"id":"pmpt_1"},`), model.ReasonStored},
		"stored":                        {inResponses.call(`"store":1,`), model.ReasonStored},
		"compaction at the vendor":      {inResponses.call(`"context_management":[{"type":"compaction"}],`), model.ReasonField},
		"what a search found":           {inResponses.call(`"include":["web_search_call.action.sources"],`), model.ReasonField},
		"what a file holds":             {inResponses.call(`"include":["file_search_call.results"],`), model.ReasonField},
		"a dear service tier":           {inResponses.call(`"service_tier":"priority",`), model.ReasonField},
		"a cache for a day":             {inResponses.call(`"prompt_cache_retention":"24h",`), model.ReasonField},
		"a structure in a plain field":  {inResponses.call(`"user":{"url":"x"},`), model.ReasonMalformed},
		"a structure in the metadata":   {inResponses.call(`"metadata":{"a":{"b":1}},`), model.ReasonMalformed},
		"instructions that are items":   {inResponses.call(`"instructions":[{"type":"input_file"}],`), model.ReasonMalformed},
		"a field of Chat":               {inResponses.call(`"max_tokens":5,`), model.ReasonField},
		"the messages of Chat":          {`{"model":"gpt-5.1","messages":[{"role":"user","content":"x"}]}`, model.ReasonField},
		"a stream option nobody knows":  {inResponses.call(`"stream_options":{"x":1},`), model.ReasonField},
		"a search's options":            {inResponses.call(`"web_search_options":{},`), model.ReasonVendorTool},
		"a moderation's own parameters": {inResponses.call(`"moderation":{"model":"x"},`), model.ReasonField},
	}
	for _, kind := range []string{
		"web_search", "web_search_preview", "web_search_2025_08_26", "file_search", "code_interpreter", "computer", "computer_use_preview", "image_generation",
		"mcp", "tool_search", "hologram", "programmatic_tool_calling", "connector", "",
	} {
		tests["the tool "+kind] = refused{tool(`{"type":"` + kind + `","name":"x"}`), model.ReasonVendorTool}
	}
	for _, kind := range []string{
		"web_search_call", "file_search_call", "computer_call", "computer_call_output", "code_interpreter_call", "image_generation_call", "mcp_call", "mcp_list_tools",
		"mcp_approval_request", "mcp_approval_response", "tool_search_call", "tool_search_output", "compaction_trigger", "Message", "input_file",
	} {
		tests["the item "+kind] = refused{items(`{"type":"` + kind + `","id":"x"}`), model.ReasonContentBlock}
	}
	refusals(t, inResponses, nil, tests)
}

// M-04: of Chat only what the client holds and runs itself is let through.
func TestWhatChatRefuses(t *testing.T) {
	saying := func(s string) string {
		return `{"model":"gpt-5.1","messages":[{"role":"user","content":[` + s + `]}]}`
	}
	said := func(s string) string { return `{"model":"gpt-5.1","messages":[` + s + `]}` }
	refusals(t, inChat, nil, map[string]refused{
		"a web search":                {inChat.call(`"web_search_options":{},`), model.ReasonVendorTool},
		"plugins":                     {inChat.call(`"plugins":[{"id":"web"}],`), model.ReasonVendorTool},
		"a vendor's tool":             {inChat.call(`"tools":[{"type":"web_search"}],`), model.ReasonVendorTool},
		"a builtin function":          {inChat.call(`"tools":[{"type":"builtin_function","function":{"name":"$web_search"}}],`), model.ReasonVendorTool},
		"mcp":                         {inChat.call(`"tools":[{"type":"mcp","server_url":"https://evil.test"}],`), model.ReasonVendorTool},
		"a tool without a type":       {inChat.call(`"tools":[{"function":{"name":"x"}}],`), model.ReasonVendorTool},
		"a tool without a name":       {inChat.call(`"tools":[{"type":"function","function":{}}],`), model.ReasonMalformed},
		"a tool without a definition": {inChat.call(`"tools":[{"type":"function"}],`), model.ReasonMalformed},
		"a field beside a tool":       {inChat.call(`"tools":[{"type":"function","function":{"name":"x"},"server_url":"u"}],`), model.ReasonField},
		"a field of a tool":           {inChat.call(`"tools":[{"type":"function","function":{"name":"x","url":"u"}}],`), model.ReasonField},
		"an old function's field":     {inChat.call(`"functions":[{"name":"x","url":"u"}],`), model.ReasonField},
		"a choice of a vendor's tool": {inChat.call(`"tool_choice":{"type":"web_search"},`), model.ReasonVendorTool},
		"an image by address":         {saying(`{"type":"image_url","image_url":{"url":"https://evil.test/?secret"}}`), model.ReasonRemoteSource},
		"an image by a plain address": {saying(`{"type":"image_url","image_url":"https://evil.test"}`), model.ReasonMalformed},
		"an image of this network":    {saying(`{"type":"image_url","image_url":{"url":"http://169.254.169.254/"}}`), model.ReasonRemoteSource},
		"a field of an image":         {saying(`{"type":"image_url","image_url":{"url":"data:image/png;base64,AA","file_id":"f"}}`), model.ReasonField},
		"a video":                     {saying(`{"type":"video_url","video_url":{"url":"https://evil.test"}}`), model.ReasonContentBlock},
		"a file":                      {saying(`{"type":"file","file":{"file_id":"f"}}`), model.ReasonRemoteSource},
		"a file's bytes":              {saying(`{"type":"file","file":{"file_data":"AA"}}`), model.ReasonRemoteSource},
		"sound":                       {saying(`{"type":"input_audio","input_audio":{"data":"AA"}}`), model.ReasonContentBlock},
		"a part nobody knows":         {saying(`{"type":"hologram"}`), model.ReasonContentBlock},
		"a field of a part":           {saying(`{"type":"text","text":"x","url":"u"}`), model.ReasonField},
		"a content that is an object": {said(`{"role":"user","content":{"type":"file"}}`), model.ReasonMalformed},
		"an image in a tool's result": {said(`{"role":"tool","tool_call_id":"c","content":[{"type":"image_url","image_url":{"url":"https://evil.test"}}]}`), model.ReasonRemoteSource},
		"sound of before":             {said(`{"role":"assistant","audio":{"id":"audio_1"}}`), model.ReasonRemoteSource},
		"a citation":                  {said(`{"role":"assistant","content":"x","annotations":[{"type":"url_citation"}]}`), model.ReasonField},
		"a role nobody knows":         {said(`{"role":"root","content":"x"}`), model.ReasonField},
		"a field of a message":        {said(`{"role":"user","content":"x","file_ids":["f"]}`), model.ReasonField},
		"a call of a vendor's tool":   {said(`{"role":"assistant","tool_calls":[{"id":"c","type":"web_search","function":{}}]}`), model.ReasonContentBlock},
		"a field of a call":           {said(`{"role":"assistant","tool_calls":[{"id":"c","type":"function","server":"s"}]}`), model.ReasonField},
		"two answers":                 {inChat.call(`"n":2,`), model.ReasonField},
		"two answers as a fraction":   {inChat.call(`"n":1.9,`), model.ReasonField},
		"the best of many":            {inChat.call(`"best_of":5,`), model.ReasonField},
		"a search by beams":           {inChat.call(`"use_beam_search":true,`), model.ReasonField},
		"a spoken answer":             {inChat.call(`"modalities":["text","audio"],`), model.ReasonField},
		"a voice":                     {inChat.call(`"audio":{"voice":"x"},`), model.ReasonStored},
		"a prediction":                {inChat.call(`"prediction":{"type":"content","content":"x"},`), model.ReasonStored},
		"two maxima":                  {inChat.call(`"max_tokens":5,"max_completion_tokens":500000,`), model.ReasonMalformed},
		"other models as well":        {inChat.call(`"models":["gpt-5.5"],`), model.ReasonField},
		"another provider":            {inChat.call(`"provider":{"order":["x"]},`), model.ReasonField},
		"a template of its own":       {inChat.call(`"chat_template":"{{x}}",`), model.ReasonField},
		"documents":                   {inChat.call(`"documents":[{"url":"https://evil.test"}],`), model.ReasonField},
		"options of Ollama":           {inChat.call(`"options":{"num_ctx":5},`), model.ReasonField},
		"usage that goes on":          {inChat.call(`"stream_options":{"continuous_usage_stats":true},`), model.ReasonField},
		"usage by a number":           {inChat.call(`"stream_options":{"include_usage":1},`), model.ReasonMalformed},
		"a field of Responses":        {inChat.call(`"previous_response_id":"resp_1",`), model.ReasonField},
	})
}

func TestWhatBrainsOfOpenAINeedIsLetThrough(t *testing.T) {
	responses := map[string]string{
		"what Codex sends": `{"model":"gpt-5.1","input":[
			{"type":"message","id":"msg_1","role":"developer","content":[{"type":"input_text","text":"x"}]},
			{"type":"message","id":"msg_2","role":"user","content":[{"type":"input_text","text":"x"}]},
			{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"x"}],"content":null,"encrypted_content":"gAAA"},
			{"type":"function_call","name":"exec_command","arguments":"{\"cmd\":\"curl https://x.test\"}","call_id":"c1"},
			{"type":"function_call","name":"spawn","namespace":"multi_agent_v1","arguments":"{}","call_id":"c2"},
			{"type":"function_call_output","id":"fco_1","call_id":"c1","output":"beans"},
			{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"x"},{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]},
			{"type":"custom_tool_call","call_id":"c3","name":"apply_patch","input":"*** Begin Patch","status":"completed"},
			{"type":"custom_tool_call_output","call_id":"c3","output":"done"},
			{"type":"local_shell_call","id":null,"call_id":"c4","status":"completed","action":{"type":"exec","command":["ls"]}},
			{"type":"function_call_output","call_id":"c4","output":"x"},
			{"type":"message","role":"assistant","phase":"final_answer","content":[{"type":"output_text","text":"x"}]}],
			"tools":[{"type":"function","name":"exec_command","description":"d","strict":false,"parameters":{"type":"object"}},
			{"type":"namespace","name":"multi_agent_v1","description":"d","tools":[{"type":"function","name":"spawn","parameters":{}}]},
			{"type":"custom","name":"apply_patch","description":"d","format":{"type":"grammar","syntax":"lark","definition":"start: x"}},
			{"type":"local_shell"},{"type":"shell","environment":{"type":"local"}},{"type":"apply_patch"}],
			"tool_choice":"auto","parallel_tool_calls":true,"reasoning":{"effort":"high","summary":"auto"},"store":false,"stream":false,
			"include":["reasoning.encrypted_content"],"prompt_cache_key":"k","client_metadata":{"thread_id":"x"},"text":{"verbosity":"low"}}`,
		"what Codex sends for its newer models": `{"model":"gpt-5.1","input":[
			{"type":"additional_tools","id":"at_1","role":"developer","tools":[{"type":"namespace","name":"functions","description":"d","tools":[
				{"type":"custom","name":"exec","description":"d","format":{"type":"grammar","syntax":"lark","definition":"start: /x/"}},
				{"type":"function","name":"wait","description":"d","strict":false,"parameters":{"type":"object"}}]}]},
			{"type":"message","id":"m","role":"user","content":[{"type":"input_text","text":"x"}]},
			{"type":"custom_tool_call","id":"c","call_id":"1","namespace":"functions","name":"exec","input":"await tools.exec_command({})"},
			{"type":"custom_tool_call_output","id":"o","call_id":"1","output":[{"type":"input_text","text":"x"}]}],
			"tool_choice":"auto","parallel_tool_calls":false,"reasoning":{"effort":"medium","context":"all_turns"},"store":false,"stream":false,
			"include":["reasoning.encrypted_content"],"prompt_cache_key":"k","text":{"verbosity":"low"}}`,
		"a text":              `{"model":"gpt-5.1-2025-11-13","input":"hi","instructions":"be brief"}`,
		"nothing in words":    inResponses.call(`"previous_response_id":null,"conversation":null,"prompt":null,"background":false,"store":null,"max_output_tokens":null,"truncation":null,"service_tier":null,"tools":null,"instructions":null,"metadata":null,"user":null,`),
		"an answer sent back": items(`{"type":"message","id":"m","role":"assistant","status":"completed","content":[{"type":"output_text","text":"x","annotations":[],"logprobs":[]},{"type":"refusal","refusal":"no"}]}`),
		"a shell's round":     items(`{"type":"shell_call","call_id":"c","action":{"commands":["ls"]},"environment":{"type":"local"},"status":"completed"},{"type":"shell_call_output","call_id":"c","output":[{"stdout":"x","stderr":"","outcome":{"type":"exit","exit_code":0}}]}`),
		"a patch's round":     items(`{"type":"apply_patch_call","call_id":"c","operation":{"type":"update_file","path":"a","diff":"x"},"status":"completed"},{"type":"apply_patch_call_output","call_id":"c","status":"completed","output":"ok"}`),
		"a choice":            inResponses.call(`"tool_choice":{"type":"function","name":"x"},"text":{"format":{"type":"json_schema","name":"n","schema":{}}},`),
		"some tools allowed":  inResponses.call(`"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"x"}]},`),
	}
	chat := map[string]string{
		"a tool's round": `{"model":"gpt-5.1","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"low"}}],"name":"n"},
			{"role":"assistant","content":null,"refusal":null,"audio":null,"annotations":[],"reasoning_content":"hm","tool_calls":[{"id":"c","type":"function","index":0,"function":{"name":"f","arguments":"{\"url\":\"https://x.test\"}"}},{"id":"d","type":"custom","custom":{"name":"g","input":"x"}}]},
			{"role":"tool","tool_call_id":"c","content":"beans"},{"role":"tool","tool_call_id":"d","content":[{"type":"text","text":"x"}]}],
			"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"},"strict":true}},{"type":"custom","custom":{"name":"g","format":{"type":"grammar","grammar":{"syntax":"regex","definition":"x"}}}}],
			"tool_choice":"auto","parallel_tool_calls":false,"temperature":0.5,"top_p":1,"stop":["x"],"seed":5,"reasoning_effort":"low","response_format":{"type":"json_object"},"store":false,"n":1}`,
		"the old form":     `{"model":"gpt-4.1","messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"x"}],"functions":[{"name":"f","parameters":{}}],"function_call":{"name":"f"}}`,
		"nothing in words": inChat.call(`"max_tokens":null,"max_completion_tokens":null,"tools":null,"n":null,"store":null,"modalities":["text"],"audio":null,"stream_options":null,`),
		"some allowed":     inChat.call(`"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"x"}}]}},`),
	}
	b := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"response","usage":{"input_tokens":1,"output_tokens":1}}`)
	}), everyDialect)
	for s, bodies := range map[*speech]map[string]string{&inResponses: responses, &inChat: chat} {
		for name, body := range bodies {
			if resp, text := b.ask(t, *s, body, nil); resp.StatusCode != 200 {
				t.Errorf("%s, %s: have %d %s", s.dialect, name, resp.StatusCode, text)
			}
		}
	}
}

// M-04: nothing is stored at the vendor, and what the client says of itself stays here.
func TestWhatTheGatewayWritesIntoARequest(t *testing.T) {
	tests := map[string]struct {
		s          speech
		body       string
		compatible bool
		want, not  []string
	}{
		"Responses":              {inResponses, inResponses.call(`"client_metadata":{"a":"b"},`), false, []string{`"store":false`, `"max_output_tokens":32000`}, []string{"client_metadata"}},
		"Responses that says so": {inResponses, inResponses.call(`"store":null,"max_output_tokens":null,`), false, []string{`"store":false`, `"max_output_tokens":32000`}, []string{"null"}},
		"Chat":                   {inChat, inChat.call(``), false, []string{`"store":false`, `"max_completion_tokens":32000`}, []string{`"max_tokens"`, "stream_options"}},
		"Chat that says nothing": {inChat, inChat.call(`"max_tokens":null,"store":null,`), false, []string{`"store":false`, `"max_completion_tokens":32000`}, []string{`"max_tokens"`, "null"}},
		"Chat of others":         {inChat, inChat.call(`"store":false,`), true, []string{`"max_tokens":32000`}, []string{`"store"`, "max_completion_tokens"}},
		"Chat in the old form":   {inChat, inChat.call(`"max_tokens":7,`), false, []string{`"max_tokens":7`}, []string{"max_completion_tokens"}},
		"a stream of Chat":       {inChat, inChat.call(`"stream":true,`), false, []string{`"stream_options":{"include_usage":true}`}, nil},
		"a stream without usage": {inChat, inChat.call(`"stream":true,"stream_options":{"include_usage":false},`), false, []string{`"stream_options":{"include_usage":true}`}, nil},
		"a stream with usage":    {inChat, inChat.call(`"stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false},`), false, []string{`"include_obfuscation":false`}, nil},
	}
	for name, test := range tests {
		up := scripted(t, `{"turns":[{"text":"x"}]}`)
		srv := httptest.NewTLSServer(up)
		u, _ := url.Parse(srv.URL)
		b := start(t, up, func(o *model.Options) {
			everyDialect(o)
			// A name that is not this machine's, which leads here all the same.
			u.Host = "example.com:" + u.Port()
			o.Upstreams[0].URL, o.Upstreams[0].Compatible = u, test.compatible
			o.Client = toServer(srv)
		})
		resp, text := b.ask(t, test.s, test.body, nil)
		b.stop()
		srv.Close()
		if resp.StatusCode != 200 {
			t.Errorf("%s: have %d %s", name, resp.StatusCode, text)
			continue
		}
		have := string(up.Requests()[0].Body)
		for _, want := range test.want {
			if !strings.Contains(have, want) {
				t.Errorf("%s: want %s in %s", name, want, have)
			}
		}
		for _, not := range test.not {
			if strings.Contains(have, not) {
				t.Errorf("%s: %s is in %s", name, not, have)
			}
		}
	}
}

// toServer is a client for which every name is the server's.
func toServer(srv *httptest.Server) *http.Client {
	transport := srv.Client().Transport.(*http.Transport).Clone()
	transport.DialContext = nil
	transport.Dial = func(network, _ string) (net.Conn, error) { //nolint:staticcheck // a test's dial needs no context
		return net.Dial(network, srv.Listener.Addr().String())
	}
	return &http.Client{Transport: transport}
}

// A client that did not ask for usage in its stream gets the stream that it asked for.
func TestTheUsageThatTheGatewayAskedForIsWithheld(t *testing.T) {
	for asked, want := range map[string]bool{"": false, `"stream_options":{"include_usage":true},`: true} {
		b := start(t, scripted(t, `{"turns":[{"text":"x",`+scriptedUsage+`}]}`), everyDialect)
		_, text := b.ask(t, inChat, inChat.call(`"stream":true,`+asked), nil)
		if strings.Contains(text, `"choices":[]`) != want || !strings.Contains(text, "[DONE]") || !strings.Contains(text, `"x"`) {
			t.Errorf("asked %q: have %s", asked, text)
		}
		spent(t, b, inChat.cost(10, 5), 10, 5)
	}
}

// The last event of Responses repeats the request and the answer, and is longer than a chunk.
func TestALongLastEventIsRead(t *testing.T) {
	for name, test := range map[string]struct {
		length int
		counts bool
	}{"longer than a chunk": {300_000, true}, "longer than is read": {9 << 20, false}} {
		b := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"instructions\":\""+strings.Repeat("x", test.length)+
				`","usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":3}}}}`+"\n\n")
		}), everyDialect)
		text := b.rough(t, inResponses)
		b.stop()
		if len(text) < test.length {
			t.Errorf("%s: have %d bytes", name, len(text))
		}
		end := detailOf(t, b.log.all()[1])
		want := (6*1_250_000 + 4*125_000 + 5*10_000_000 + 999_999) / int64(1_000_000)
		if test.counts && (end.Cost != want || end.Cached != 4 || end.Thought != 3 || end.In != 10) || !test.counts && end.Cost < inResponses.cost(0, 1000) {
			t.Errorf("%s: have %+v, want %d", name, end, want)
		}
	}
}

// Some upstreams leave what was thought out of the output: the total tells.
func TestUsageInManyForms(t *testing.T) {
	tests := map[string]struct {
		usage              string
		input, cached, out int64
	}{
		"plain":                        {`{"prompt_tokens":10,"completion_tokens":5}`, 10, 0, 5},
		"a total that agrees":          {`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}`, 10, 0, 5},
		"thinking outside the output":  {`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":40,"completion_tokens_details":{"reasoning_tokens":25}}`, 10, 0, 30},
		"more cached than read":        {`{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":99}}`, 10, 10, 5},
		"negative":                     {`{"prompt_tokens":-10,"completion_tokens":-5,"total_tokens":-1,"prompt_tokens_details":{"cached_tokens":-9}}`, 1, 0, 0},
		"the words of Responses":       {`{"input_tokens":10,"output_tokens":5,"input_tokens_details":{"cached_tokens":2}}`, 10, 2, 5},
		"both, the larger":             {`{"input_tokens":10,"prompt_tokens":20,"output_tokens":5,"completion_tokens":1}`, 20, 0, 5},
		"details of null":              {`{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":null,"completion_tokens_details":null}`, 10, 0, 5},
		"with what the vendor adds":    {`{"prompt_tokens":10,"completion_tokens":5,"cost":0.1,"queue_time":1.5,"x":{"y":[]}}`, 10, 0, 5},
		"a count that is not a number": {`{"prompt_tokens":"10","completion_tokens":5}`, -1, 0, 0},
	}
	for name, test := range tests {
		b := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"choices":[{"message":{"content":["odd"]}}],"usage":`+test.usage+`}`)
		}), everyDialect)
		_, _ = b.ask(t, inChat, inChat.call(""), nil)
		b.stop()
		begin, end := detailOf(t, b.log.all()[0]), detailOf(t, b.log.all()[1])
		if test.input < 0 {
			if end.Cost != begin.Reserved {
				t.Errorf("%s: have %+v", name, end)
			}
			continue
		}
		if end.In != test.input || end.Cached != test.cached || end.Out != test.out {
			t.Errorf("%s: have %+v", name, end)
		}
	}
}
