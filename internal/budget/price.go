package budget

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"
)

const (
	// MaxPrice is the highest price accepted, in micro-dollars per million tokens ($1,500).
	MaxPrice = 1_500_000_000
	// MaxTokens is the largest count priced; a larger one is priced as this.
	MaxTokens = 1_000_000_000
	// maxLongFactor bounds Price.LongFactor.
	maxLongFactor = 100

	million = 1_000_000
)

// Price is what a model costs, in micro-dollars per million tokens: $3 is
// 3,000,000. The zero value is no price, which refuses the model.
type Price struct {
	Input, Output int64
	// CacheWrite is for 5 minutes, CacheWriteLong for 1 hour, CacheRead for a hit.
	CacheWrite, CacheWriteLong, CacheRead int64
	// LongAbove, when set, is the input in tokens over which every price is times LongFactor.
	LongAbove, LongFactor int64
	// MaxOutput, when set, is the most output tokens that the model can be asked for.
	MaxOutput int64
	// Free says that the model costs nothing, such as one on this machine.
	Free bool
}

// Usage is what one call used, in tokens. Input leaves out what the cache took or gave.
type Usage struct {
	Input, Output, CacheWrite, CacheWriteLong, CacheRead int64
}

// In is all that the model read, cached or not.
func (u Usage) In() int64 {
	return clamp(u.Input) + clamp(u.CacheWrite) + clamp(u.CacheWriteLong) + clamp(u.CacheRead)
}

// Check refuses what cannot be meant: no price, a negative or absurd one, or both free and not.
func (p Price) Check() error {
	for _, v := range []int64{p.Input, p.Output, p.CacheWrite, p.CacheWriteLong, p.CacheRead} {
		if v < 0 || v > MaxPrice || (p.Free && v != 0) {
			return fmt.Errorf("price of %d micro-dollars per million tokens: use 1–%d, or say that the model is free", v, MaxPrice)
		}
	}
	if !p.Free && (p.Input == 0 || p.Output == 0) {
		return errors.New("no price for input or output: set both, or say that the model is free")
	}
	if p.LongAbove < 0 || p.LongFactor < 0 || p.LongFactor > maxLongFactor || (p.LongAbove > 0) != (p.LongFactor > 0) {
		return fmt.Errorf("a long-prompt price has a length and a factor of 1–%d", maxLongFactor)
	}
	if p.MaxOutput < 0 || p.MaxOutput > MaxTokens {
		return fmt.Errorf("a model's most output is 1–%d tokens", MaxTokens)
	}
	return nil
}

// Cost is what the usage costs in micro-dollars, rounded up.
func (p Price) Cost(u Usage) int64 {
	// Five products of at most 1.5e18 fit in an int64.
	sum := clamp(u.Input)*p.Input + clamp(u.Output)*p.Output + clamp(u.CacheWrite)*p.CacheWrite +
		clamp(u.CacheWriteLong)*p.CacheWriteLong + clamp(u.CacheRead)*p.CacheRead
	return roundUp(sum) * p.factor(u.In())
}

// Most is the most that a call with so many tokens can cost: every input token
// at the dearest of the input prices, and all the output that is allowed.
func (p Price) Most(input, output int64) int64 {
	sum := clamp(input)*p.dearestInput() + clamp(output)*p.Output
	return roundUp(sum) * p.factor(input)
}

// Affordable is how many output tokens left micro-dollars buy after the input.
func (p Price) Affordable(input, left int64) int64 {
	if p.Free {
		return MaxTokens
	}
	rest := left/p.factor(input) - roundUp(clamp(input)*p.dearestInput())
	if rest <= 0 || p.Output <= 0 {
		return 0
	}
	if rest > (1<<62)/million {
		return MaxTokens
	}
	return clamp(rest * million / p.Output)
}

func (p Price) dearestInput() int64 {
	return max(p.Input, p.CacheWrite, p.CacheWriteLong, p.CacheRead)
}

func (p Price) factor(input int64) int64 {
	if p.LongAbove > 0 && input > p.LongAbove {
		return p.LongFactor
	}
	return 1
}

func clamp(tokens int64) int64 { return min(max(tokens, 0), MaxTokens) }

func roundUp(v int64) int64 { return (v + million - 1) / million }

// Table maps a model's id to its price.
type Table map[string]Price

// dateSuffix is how both vendors name a model of one day: -20251001, -2025-08-07.
var dateSuffix = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`-20[0-9]{2}(-?)[0-9]{2}(-?)[0-9]{2}$`) })

// Lookup finds a model by its id, or by its id without the date at its end.
// A model that is not listed, or whose price does not pass Check, has none.
func (t Table) Lookup(model string) (Price, error) {
	p, ok := t[model]
	if !ok {
		p, ok = t[dateSuffix().ReplaceAllString(model, "")]
	}
	if !ok {
		return Price{}, errors.New("the model has no price: add it to the price file")
	}
	if err := p.Check(); err != nil {
		return Price{}, err
	}
	return p, nil
}

// ListPrices is what Anthropic and OpenAI list for their models (autumn 2026). Each call returns a
// new table, for the caller to add to.
func ListPrices() Table {
	t := AnthropicPrices()
	maps.Copy(t, OpenAIPrices())
	return t
}

// OpenAIPrices is what OpenAI lists for its models in the standard tier.
func OpenAIPrices() Table {
	t := Table{
		"gpt-4.1":      automatic(2_000_000, 8_000_000, 500_000),
		"gpt-4.1-mini": automatic(400_000, 1_600_000, 100_000),
		"gpt-4.1-nano": automatic(100_000, 400_000, 25_000),
		"gpt-4o":       automatic(2_500_000, 10_000_000, 1_250_000),
		// The one date that costs more than its name.
		"gpt-4o-2024-05-13": automatic(5_000_000, 15_000_000, 5_000_000),
		"o3":                automatic(2_000_000, 8_000_000, 500_000),
		"o4-mini":           automatic(1_100_000, 4_400_000, 275_000),
		"gpt-5-nano":        automatic(50_000, 400_000, 5_000),
		"gpt-5.4-mini":      automatic(750_000, 4_500_000, 75_000),
		"gpt-5.4-nano":      automatic(200_000, 1_250_000, 20_000),
	}
	for _, id := range []string{"gpt-5", "gpt-5-codex", "gpt-5.1", "gpt-5.1-codex", "gpt-5.1-codex-max"} {
		t[id] = automatic(1_250_000, 10_000_000, 125_000)
	}
	for _, id := range []string{"gpt-5-mini", "gpt-5.1-codex-mini"} {
		t[id] = automatic(250_000, 2_000_000, 25_000)
	}
	for _, id := range []string{"gpt-5.2", "gpt-5.2-codex", "gpt-5.3-codex"} {
		t[id] = automatic(1_750_000, 14_000_000, 175_000)
	}
	for id, p := range map[string]Price{
		"gpt-5.4": automatic(2_500_000, 15_000_000, 250_000), "gpt-5.5": automatic(5_000_000, 30_000_000, 500_000),
	} {
		p.LongAbove, p.LongFactor = 272_000, 2
		t[id] = p
	}
	for id, p := range t {
		p.MaxOutput = openaiMost(id)
		t[id] = p
	}
	return t
}

// openaiMost is the most output that the vendor documents for a model.
func openaiMost(id string) int64 {
	switch {
	case id == "gpt-4o-2024-05-13":
		return 4_096
	case strings.HasPrefix(id, "gpt-4o"):
		return 16_384
	case strings.HasPrefix(id, "gpt-4.1"):
		return 32_768
	case strings.HasPrefix(id, "o"):
		return 100_000
	}
	return 128_000
}

// automatic is a price whose cache is written without being asked, at the price of the input.
func automatic(input, output, read int64) Price {
	return Price{Input: input, Output: output, CacheRead: read, CacheWrite: input, CacheWriteLong: input}
}

// AnthropicPrices is what Anthropic lists for its models.
func AnthropicPrices() Table {
	t := Table{
		"claude-3-5-haiku":  cached(800_000, 4_000_000, 80_000),
		"claude-haiku-4-5":  cached(1_000_000, 5_000_000, 100_000),
		"claude-sonnet-5":   cached(2_000_000, 10_000_000, 200_000),
		"claude-sonnet-5-5": cached(2_000_000, 10_000_000, 100_000),
		"claude-opus-5-5":   cached(4_000_000, 20_000_000, 200_000),
	}
	haiku := cached(100_000, 500_000, 10_000)
	haiku.LongAbove, haiku.LongFactor = 100_000, 5
	t["claude-haiku-5-5"] = haiku
	for _, id := range []string{"claude-3-5-sonnet", "claude-3-7-sonnet", "claude-sonnet-4", "claude-sonnet-4-0", "claude-sonnet-4-5", "claude-sonnet-4-6"} {
		t[id] = cached(3_000_000, 15_000_000, 300_000)
	}
	for _, id := range []string{"claude-opus-4", "claude-opus-4-0", "claude-opus-4-1"} {
		t[id] = cached(15_000_000, 75_000_000, 1_500_000)
	}
	for _, id := range []string{"claude-opus-4-5", "claude-opus-4-6", "claude-opus-4-7", "claude-opus-4-8", "claude-opus-5"} {
		t[id] = cached(5_000_000, 25_000_000, 500_000)
	}
	for _, family := range []string{"claude-fable-5", "claude-mythos-5"} {
		t[family] = cached(10_000_000, 50_000_000, 1_000_000)
		t[family+"-1"] = cached(10_000_000, 50_000_000, 250_000)
		t[family+"-2"] = cached(8_000_000, 40_000_000, 200_000)
	}
	for id, most := range map[string]int64{
		"claude-3-5-haiku": 8_192, "claude-3-5-sonnet": 8_192, "claude-3-7-sonnet": 64_000, "claude-haiku-4-5": 64_000,
		"claude-sonnet-4": 64_000, "claude-sonnet-4-0": 64_000, "claude-sonnet-4-5": 64_000, "claude-opus-4": 32_000,
		"claude-opus-4-0": 32_000, "claude-opus-4-1": 32_000, "claude-opus-4-5": 64_000,
	} {
		p := t[id]
		p.MaxOutput = most
		t[id] = p
	}
	return t
}

// cached adds the list's cache writes: 1.25 times the input for 5 minutes, twice for 1 hour.
func cached(input, output, read int64) Price {
	return Price{Input: input, Output: output, CacheWrite: input + input/4, CacheWriteLong: 2 * input, CacheRead: read}
}
