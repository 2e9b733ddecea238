package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nacre-dev/nacre/internal/person"
	"github.com/nacre-dev/nacre/internal/posture"
)

// Bounds are what every session is held to, and how long what it leaves is kept.
type Bounds struct {
	// OutputTokens is how much of results one session may see; 0 means DefaultOutputTokens (K-16).
	OutputTokens int `toml:"output_tokens"`
	// Results is how much of one result is shown at once (K-31).
	Results Results `toml:"results"`
	// Rates are how many calls there may be in a minute, of all tools together (K-35).
	Rates Rates `toml:"rates"`
	// AskSeconds is how long a person has to answer; 0 means 300 (D-13).
	AskSeconds int `toml:"ask_seconds"`
	// Approval is how questions are dealt with (U-11).
	Approval Approval `toml:"approval"`
	// Policy says how a policy comes into force.
	Policy Policy `toml:"policy"`
	// Operators are the persons who may decide (M-46).
	Operators person.Operators `toml:"operators"`
	// Landing says what lands of verified work (M-67).
	Landing  Landing          `toml:"landing"`
	Children posture.Children `toml:"children"` // whether agents may ask for further ones (M-69)
	// Retention removes old sessions by itself; its zero value removes none (U-22).
	Retention Retention `toml:"retention"`
}

// Policy says how a policy comes into force.
type Policy struct {
	// RequireReplay refuses sessions under a policy that nobody accepted with nacre policy accept (U-42).
	RequireReplay bool `toml:"require_replay"`
}

func (b Bounds) check() error {
	if b.AskSeconds < 0 || b.AskSeconds > 86400 {
		return fmt.Errorf("ask_seconds = %d: use 1 to 86400", b.AskSeconds)
	}
	if b.OutputTokens < 0 {
		return fmt.Errorf("output_tokens = %d: use a positive number, or leave it out", b.OutputTokens)
	}
	return errors.Join(b.Rates.check("[rates]"), b.Approval.check(), b.Retention.check(), b.Children.Check(), b.Operators.Check())
}

// Retention says which sessions are old. Work that did not land is never removed for it.
type Retention struct {
	// Older is how long a session is kept after its end, such as "30d" or "12h".
	Older string `toml:"older"`
	// Keep is how many of the newest sessions are kept, however old they are.
	Keep int `toml:"keep"`
}

// IsSet tells whether the operator wants old sessions to be removed.
func (r Retention) IsSet() bool { return r.Older != "" || r.Keep != 0 }

// Age is how long a session is kept; 0 says nothing about its age.
func (r Retention) Age() (time.Duration, error) {
	if r.Older == "" {
		return 0, nil
	}
	return ParseAge(r.Older)
}

func (r Retention) check() error {
	if r.Keep < 0 {
		return fmt.Errorf("[retention] keep = %d: use 1 or more, or leave it out", r.Keep)
	}
	if _, err := r.Age(); err != nil {
		return fmt.Errorf("[retention] older: %w", err)
	}
	return nil
}

// maxAge is the longest age that can be written.
const maxAge = 100 * 365 * 24 * time.Hour

// ParseAge reads an age: days, such as "30d", or hours and what is shorter, such as "12h".
func ParseAge(text string) (time.Duration, error) {
	wrong := errors.New("write a number of days or hours, such as 30d or 12h")
	var age time.Duration
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return 0, fmt.Errorf("%.20q is not a length of time: %w", text, wrong)
		}
		age = time.Duration(n) * 24 * time.Hour
	} else {
		var err error
		if age, err = time.ParseDuration(text); err != nil {
			return 0, fmt.Errorf("%.20q is not a length of time: %w", text, wrong)
		}
	}
	if age <= 0 || age > maxAge {
		return 0, fmt.Errorf("%.20q is not a length of time: %w", text, wrong)
	}
	return age, nil
}
