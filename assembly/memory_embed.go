package assembly

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/nacre-dev/nacre"
)

const (
	embedTimeout = 20 * time.Second
	embedAnswer  = 64 << 20 // bytes
)

// embedder asks a server that speaks the embeddings API of OpenAI.
type embedder struct {
	endpoint, model string
	key             nacre.Secret
}

// embed sends texts and gives their vectors. No error holds the key or what the
// server said.
func (e embedder) embed(ctx context.Context, texts []string) ([][]float32, error) {
	ctx, cancel := context.WithTimeout(ctx, embedTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{"model": e.model, "input": texts, "encoding_format": "float"})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if !e.key.Empty() {
		request.Header.Set("Authorization", "Bearer "+e.key.Reveal())
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("it sends elsewhere") }}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // read, or given up
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %d", e.endpoint, response.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, embedAnswer+1))
	if err != nil {
		return nil, err
	}
	if len(data) > embedAnswer {
		return nil, fmt.Errorf("%s answers with more than %d MiB", e.endpoint, embedAnswer>>20)
	}
	return vectorsOf(data, len(texts))
}

// vectorsOf puts the answer's vectors in the order of the texts.
func vectorsOf(answer []byte, texts int) ([][]float32, error) {
	var got struct {
		Data []struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(answer, &got); err != nil {
		return nil, errors.New("the answer is no list of embeddings")
	}
	vectors := make([][]float32, texts)
	for _, one := range got.Data {
		if one.Index < 0 || one.Index >= texts || vectors[one.Index] != nil {
			return nil, fmt.Errorf("an embedding of text %d of %d", one.Index, texts)
		}
		vectors[one.Index] = one.Embedding
	}
	for i, v := range vectors {
		if v == nil {
			return nil, fmt.Errorf("no embedding of text %d", i)
		}
	}
	return vectors, nil
}
