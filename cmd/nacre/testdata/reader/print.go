package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
)

// block is a part of a message of the Messages API.
type block struct {
	Type  string `json:"type"`
	Text  string `json:"text,omitempty"`
	ID    string `json:"id,omitempty"`
	Name  string `json:"name,omitempty"`
	Input struct {
		Command string `json:"command"`
	} `json:"input,omitzero"`
	ToolUseID string `json:"tool_use_id,omitempty"`
	Content   string `json:"content,omitempty"`
}

type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// print answers a prompt as claude -p does: it runs the commands that the model asks for,
// and prints what it says.
func print(prompt string) error {
	messages := []message{{"user", []block{{Type: "text", Text: prompt}}}}
	for {
		answer, err := ask(messages)
		if err != nil {
			return err
		}
		var results []block
		for _, b := range answer {
			switch b.Type {
			case "text":
				fmt.Println(b.Text)
			case "tool_use":
				out, err := exec.Command("sh", "-c", b.Input.Command).CombinedOutput()
				if err != nil {
					return fmt.Errorf("%w: %s", err, out)
				}
				results = append(results, block{Type: "tool_result", ToolUseID: b.ID, Content: string(out)})
			}
		}
		if results == nil {
			return nil
		}
		messages = append(messages, message{"assistant", answer}, message{"user", results})
	}
}

func ask(messages []message) ([]block, error) {
	tool := map[string]any{"name": "Bash", "description": "runs a command", "input_schema": map[string]any{"type": "object"}}
	data, err := post(map[string]any{"model": "claude-sonnet-4-5", "max_tokens": 1000, "messages": messages, "tools": []any{tool}})
	if err != nil {
		return nil, err
	}
	var answer struct{ Content []block }
	err = json.Unmarshal(data, &answer)
	return answer.Content, err
}

// post asks the model.
func post(asked any) ([]byte, error) {
	body, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequest(http.MethodPost, os.Getenv("ANTHROPIC_BASE_URL")+"/v1/messages", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header = http.Header{"Content-Type": {"application/json"}, "Anthropic-Version": {"2023-06-01"}, "X-Api-Key": {os.Getenv("ANTHROPIC_API_KEY")}}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the model: %s %s", response.Status, answer)
	}
	return answer, err
}
