//go:build linux

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/nacre-dev/nacre"
)

// Limits of what the door's tools may add to each request.
const (
	maxDoorTools   = 128
	maxDoorPages   = 64
	maxDescription = 4 << 10
	maxSchema      = 32 << 10
)

// catalogueTool is the door's own tool that names the others.
const catalogueTool = "list_tools"

// Door carries one call to the host's door and waits for what comes of it: the
// result, or the error object {"code","message","retriable"}. Each call is
// decided, recorded and carried out on the host.
type Door func(ctx context.Context, tool string, arguments json.RawMessage) (result, failure json.RawMessage)

// doorTools asks once what tools there are behind the door. Those beyond the
// limits, and those whose name is one of our own tools', are left to `ipc`.
func doorTools(ctx context.Context, door Door) ([]offer, error) {
	var found []offer
	after := ""
	for range maxDoorPages {
		arguments := object{}
		if after != "" {
			arguments["after"] = after
		}
		asked, err := encode(arguments)
		if err != nil {
			return nil, err
		}
		listed, failure := door(ctx, catalogueTool, asked)
		if failure != nil {
			return nil, fmt.Errorf("the tools of the door cannot be listed: %.300s", failure)
		}
		tools, next, err := catalogue(listed)
		if err != nil {
			return nil, fmt.Errorf("the door's list of tools: %w", err)
		}
		found = append(found, tools...)
		if next == "" || next == after || len(found) >= maxDoorTools {
			break
		}
		after = next
	}
	return found[:min(len(found), maxDoorTools)], nil
}

func catalogue(listed []byte) (tools []offer, next string, err error) {
	var page struct {
		Tools []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Schema      json.RawMessage `json:"arguments_schema"`
		} `json:"tools"`
		Next string `json:"next"`
	}
	if err := json.Unmarshal(listed, &page); err != nil {
		return nil, "", err
	}
	if page.Tools == nil {
		return nil, "", errors.New("no tools in it")
	}
	for _, t := range page.Tools {
		var schema map[string]any
		_, err := nacre.ParseToolName(t.Name)
		if err != nil || len(t.Schema) > maxSchema || json.Unmarshal(t.Schema, &schema) != nil || schema["type"] != "object" {
			continue // a vendor would refuse the whole request for it
		}
		tools = append(tools, offer{t.Name, clip(t.Description, maxDescription), t.Schema})
	}
	return tools, page.Next, nil
}

// throughDoor makes a call of the model's one of the door's.
func throughDoor(ctx context.Context, door Door, b block) Result {
	got, failure := door(ctx, b.name, b.input)
	if failure == nil {
		return Result{Text: string(got)}
	}
	var said struct {
		Code nacre.Code `json:"code"`
	}
	_ = json.Unmarshal(failure, &said) // without a code it is an error like any other
	denied := slices.Contains([]nacre.Code{nacre.CodeUnauthorized, nacre.CodeConfirmationDenied, nacre.CodeConfirmationTimeout}, said.Code)
	return Result{Text: string(failure), IsError: true, Denied: denied}
}
