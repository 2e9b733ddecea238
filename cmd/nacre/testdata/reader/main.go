// Command reader plays the part of Claude Code, as far as the host can see: it
// tells its version and follows the control protocol, reads a file of the
// project with a tool of its own, shows its model what it read, and then calls
// tools through ipc; or it does what a script of the project says. With -p and a
// prompt it converses with the model.
package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"strings"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println("2.1.329 (Claude Code)")
		return
	}
	if last := len(os.Args) - 1; last > 1 && os.Args[last-1] == "-p" {
		if err := print(os.Args[last]); err != nil {
			log.Fatal(err)
		}
		return
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	in.Scan() // the control request
	in.Scan() // the task
	if err := work(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(`{"type":"result","subtype":"success","result":"bye","session_id":"0f0e0d0c-0b0a-0908-0706-050403020100"}`)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the host has heard it
}

// script, where the project has it, is done in place of reading.
const script = "pkg/x/agent.sh"

func work() error {
	if _, err := os.Stat(script); err == nil {
		return exec.Command("sh", script).Run()
	}
	notes, err := os.ReadFile("notes.txt")
	if err != nil {
		return err
	}
	if err := tellModel(string(notes)); err != nil {
		return err
	}
	var said []byte
	for _, to := range strings.Fields(string(notes)) {
		out, _ := exec.Command("ipc", "--dry-run", "send", fmt.Sprintf("{%q:%q}", "to", to)).CombinedOutput() // what it says is the result
		said = append(said, out...)
	}
	return os.WriteFile("said.txt", said, 0o600)
}

// tellModel sends what a tool has read as the next request of the conversation.
func tellModel(read string) error {
	_, err := post(map[string]any{
		"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": []any{
			map[string]any{"role": "user", "content": "answer my letters"},
			map[string]any{"role": "assistant", "content": []any{
				map[string]any{"type": "tool_use", "id": "t1", "name": "Read", "input": map[string]string{"file_path": "notes.txt"}}}},
			map[string]any{"role": "user", "content": []any{map[string]any{"type": "tool_result", "tool_use_id": "t1", "content": read}}},
		},
	})
	return err
}
