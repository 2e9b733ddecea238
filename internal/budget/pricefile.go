package budget

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

const (
	// MaxPriceFile is the largest price file in bytes.
	MaxPriceFile = 1 << 20
	// maxModels is how many models a price file lists at most.
	maxModels = 10_000
	// maxModelID is the longest id in bytes.
	maxModelID = 128
)

// priceFile is what a person writes; see ParsePrices.
type priceFile struct {
	Builtin *bool                 `toml:"builtin"`
	Models  map[string]priceEntry `toml:"models"`
}

type priceEntry struct {
	Input          *dollars `toml:"input"`
	Output         *dollars `toml:"output"`
	CacheRead      *dollars `toml:"cache_read"`
	CacheWrite     *dollars `toml:"cache_write"`
	CacheWriteLong *dollars `toml:"cache_write_long"`
	LongAbove      int64    `toml:"long_above"`
	LongFactor     int64    `toml:"long_factor"`
	MaxOutput      int64    `toml:"max_output"`
	Free           bool     `toml:"free"`
}

var priceKeys = []string{
	"input", "output", "cache_read", "cache_write", "cache_write_long", "long_above", "long_factor", "max_output", "free",
}

// ParsePrices reads a price file: TOML, in US dollars per million tokens.
//
//	builtin = true            # the default: models that are not below keep the price of ListPrices
//	[models."gpt-5.1"]
//	input = 1.25
//	output = 10
//	cache_read = 0.125        # default: as input; so are cache_write and cache_write_long
//	long_above = 272_000      # over so many input tokens, every price is times long_factor
//	long_factor = 2
//	max_output = 128_000      # a call that asks for more is refused
//	[models."qwen3:8b"]
//	free = true               # on this machine
//
// Unknown keys, a price that is missing, negative or has more than six
// decimals, and a free model with a price are errors that name the model.
func ParsePrices(data []byte) (Table, error) {
	if len(data) > MaxPriceFile {
		return nil, fmt.Errorf("prices: %d bytes are over the limit of %d", len(data), MaxPriceFile)
	}
	if !utf8.Valid(data) {
		return nil, errors.New("prices: not UTF-8")
	}
	var file priceFile
	meta, err := toml.Decode(string(data), &file)
	if err != nil {
		return nil, fmt.Errorf("prices: %w", err)
	}
	for _, key := range meta.Keys() { // the decoder would take keys in any case
		top := key[0] == "models" || len(key) == 1 && key[0] == "builtin"
		if !top || len(key) > 3 || len(key) == 3 && !slices.Contains(priceKeys, key[2]) {
			return nil, fmt.Errorf("prices: unknown key %.200s: the keys are builtin and models, of a model %v", key, priceKeys)
		}
	}
	if len(file.Models) > maxModels {
		return nil, fmt.Errorf("prices: %d models are over the limit of %d", len(file.Models), maxModels)
	}
	table := Table{}
	if file.Builtin == nil || *file.Builtin {
		table = ListPrices()
	}
	for id, entry := range file.Models {
		if table[id], err = entry.price(id); err != nil {
			return nil, fmt.Errorf("prices: model %.128q: %w", id, err)
		}
	}
	return table, nil
}

func (e priceEntry) price(id string) (Price, error) {
	if id == "" || len(id) > maxModelID {
		return Price{}, fmt.Errorf("an id has 1–%d bytes", maxModelID)
	}
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' {
			return Price{}, errors.New("an id is visible ASCII")
		}
	}
	p := Price{Free: e.Free, LongAbove: e.LongAbove, LongFactor: e.LongFactor, MaxOutput: e.MaxOutput}
	if e.Free && (e.Input != nil || e.Output != nil || e.CacheRead != nil || e.CacheWrite != nil || e.CacheWriteLong != nil) {
		return Price{}, errors.New("a free model has no prices: leave them out, or leave free out")
	}
	p.Input, p.Output = e.Input.or(0), e.Output.or(0)
	p.CacheRead, p.CacheWrite, p.CacheWriteLong = e.CacheRead.or(p.Input), e.CacheWrite.or(p.Input), e.CacheWriteLong.or(p.Input)
	return p, p.Check()
}

// dollars is an amount in micro-dollars that is written in dollars.
type dollars int64

func (d *dollars) or(standard int64) int64 {
	if d == nil {
		return standard
	}
	return int64(*d)
}

// UnmarshalTOML takes a number, or the same as a text.
func (d *dollars) UnmarshalTOML(value any) error {
	var written string
	switch v := value.(type) {
	case string:
		written = v
	case int64:
		written = strconv.FormatInt(v, 10)
	case float64:
		written = strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return errors.New("want dollars per million tokens, such as 1.25")
	}
	micro, err := parseDollars(written)
	*d = dollars(micro)
	return err
}

const decimals = 6

// parseDollars reads an amount without rounding it.
func parseDollars(s string) (int64, error) {
	whole, fraction, point := strings.Cut(s, ".")
	bad := fmt.Errorf("%.32q: want dollars per million tokens, such as 1.25, with at most %d decimals", s, decimals)
	if len(fraction) > decimals || point && fraction == "" || !digits(whole) || !digits("0"+fraction) {
		return 0, bad
	}
	micro, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", decimals-len(fraction)), 10, 64)
	if err != nil || micro > MaxPrice {
		return 0, fmt.Errorf("%.32q: the highest price is %s", s, Dollars(MaxPrice))
	}
	return micro, nil
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
