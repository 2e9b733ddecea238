package provenance

import (
	"bytes"
	"strings"

	"github.com/nacre-dev/nacre"
)

const (
	// ProjectSource is the name of what a model request says of the sandbox.
	ProjectSource = "what the brain read in the sandbox"
	// maxBlocks is how many blocks are remembered; when there are more, all are
	// forgotten, and read once more.
	maxBlocks = 16 << 10
	// maxBlockDepth is how deep content is nested in content.
	maxBlockDepth = 8
)

// ObserveModelRequest takes in what the brain read inside the sandbox: the
// results of tools in the body of a model request, of Anthropic Messages, OpenAI
// Chat or OpenAI Responses. A conversation is sent whole each time; what was
// read before is not read again. What is not such a body has no results.
//
// Project is SeenTrusted where the operator marked the project trusted, and
// anything else where not. Once the session is tainted nothing in the sandbox
// is trusted: a brain can print whatever an outsider told it.
func (l *Ledger) ObserveModelRequest(body []byte, project nacre.Provenance) {
	blocks := toolResults(body)
	if len(blocks) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	source := nacre.Source{Provenance: nacre.SeenUntrusted, Name: ProjectSource}
	if project.Label() == nacre.Trusted && !l.tainted {
		source.Provenance = nacre.SeenTrusted
	}
	for _, block := range blocks {
		if fresh(l.blocks, block) {
			for _, text := range texts(block, 0) {
				l.classOf(source.Provenance).addAll(read(text), source.Name, nil)
			}
		}
	}
}

// fresh reports whether a block was not read before.
func fresh(blocks map[uint64]struct{}, block []byte) bool {
	hash := digest(block)
	if _, known := blocks[hash]; known {
		return false
	}
	if len(blocks) >= maxBlocks {
		clear(blocks)
	}
	blocks[hash] = struct{}{}
	return true
}

// toolResults returns the blocks of a body that are results of tools.
func toolResults(body []byte) (found [][]byte) {
	members(body, func(key, value []byte) {
		switch string(unescape(key)) {
		case "messages", "input":
			elements(value, func(item []byte) {
				if isResult(item) {
					found = append(found, item)
					return
				}
				elements(member(item, "content"), func(block []byte) {
					if isResult(block) {
						found = append(found, block)
					}
				})
			})
		}
	})
	return found
}

// isResult knows a result by its type, or by the role of its message.
func isResult(item []byte) bool {
	found := false
	members(item, func(key, value []byte) {
		switch string(key) {
		case "role":
			role := name(value)
			found = found || role == "tool" || role == "function"
		case "type":
			kind := name(value)
			found = found || strings.HasSuffix(kind, "tool_result") || strings.HasSuffix(kind, "call_output") ||
				kind == "mcp_call" || kind == "document" || kind == "search_result"
		}
	})
	return found
}

func name(value []byte) string {
	if len(value) < 2 || value[0] != '"' {
		return ""
	}
	return string(unescape(value[1 : len(value)-1]))
}

func member(object []byte, key string) (found []byte) {
	members(object, func(k, value []byte) {
		if string(k) == key {
			found = value
		}
	})
	return found
}

// texts returns the texts of a block: all strings in it but its own names and
// what is not text.
func texts(block []byte, depth int) (found [][]byte) {
	switch block = bytes.TrimSpace(block); {
	case len(block) == 0 || depth > maxBlockDepth:
	case block[0] == '"':
		found = append(found, []byte(name(block)))
	case block[0] == '[':
		elements(block, func(value []byte) { found = append(found, texts(value, depth+1)...) })
	case block[0] == '{':
		encoded := name(member(block, "type")) == "base64"
		members(block, func(key, value []byte) {
			switch string(key) {
			case "type", "role", "id", "tool_use_id", "tool_call_id", "call_id", "status", "media_type", "image_url", "file_data", "cache_control", "arguments":
			case "data":
				if !encoded {
					found = append(found, texts(value, depth+1)...)
				}
			default:
				found = append(found, texts(value, depth+1)...)
			}
		})
	}
	return found
}

// digest is a hash of a block. An outsider who makes two blocks alike hides one
// of them, and what is in it was seen nowhere.
func digest(block []byte) uint64 {
	hash := uint64(len(block)) + 0x9E3779B97F4A7C15
	for len(block) >= 8 {
		next := uint64(block[0]) | uint64(block[1])<<8 | uint64(block[2])<<16 | uint64(block[3])<<24 |
			uint64(block[4])<<32 | uint64(block[5])<<40 | uint64(block[6])<<48 | uint64(block[7])<<56
		hash = pair(hash, next)
		block = block[8:]
	}
	for _, c := range block {
		hash = pair(hash, uint64(c))
	}
	return hash
}
