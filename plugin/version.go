package plugin

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

var (
	versionForm = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})([-+][0-9A-Za-z.+-]+)?$`)
	})
	comparatorForm = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(>=|<=|>|<|=|\^|~)?v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?([-+][0-9A-Za-z.+-]+)?$`)
	})
)

// Compatible reports whether a version lies in a semver range: comparators
// (>= <= > < = ^ ~) joined by spaces, alternatives by "||", "" and "*" for any
// version (D-25). Pre-release tags are not compared: 1.2.3-rc1 counts as 1.2.3.
func Compatible(rang, version string) (bool, error) {
	m := versionForm().FindStringSubmatch(version)
	if m == nil {
		return false, fmt.Errorf("version %.40q: use one such as 1.2.3", version)
	}
	have := numbers(m[1:4])
	any := false
	for alternative := range strings.SplitSeq(rang, "||") {
		all := true
		for comparator := range strings.FieldsSeq(alternative) {
			ok, err := compare(comparator, have)
			if err != nil {
				return false, err
			}
			all = all && ok
		}
		any = any || all
	}
	return any, nil
}

func compare(comparator string, have [3]int) (bool, error) {
	if comparator == "*" {
		return true, nil
	}
	m := comparatorForm().FindStringSubmatch(comparator)
	if m == nil {
		return false, fmt.Errorf("version range %.40q: use one such as >=0.1.0", comparator)
	}
	low := numbers(m[2:5])
	order := order(have, low)
	switch m[1] {
	case ">=":
		return order >= 0, nil
	case ">":
		return order > 0, nil
	case "<=":
		return order <= 0, nil
	case "<":
		return order < 0, nil
	case "^":
		return order >= 0 && sameUpTo(have, low, firstNonZero(low)), nil
	case "~":
		return order >= 0 && sameUpTo(have, low, min(1, given(m[2:5])-1)), nil
	}
	return sameUpTo(have, low, given(m[2:5])-1), nil
}

func numbers(parts []string) (n [3]int) {
	for i, p := range parts {
		n[i], _ = strconv.Atoi(p) // the form allows digits only; what is absent is 0
	}
	return n
}

func order(a, b [3]int) int {
	for i := range a {
		if a[i] != b[i] {
			return a[i] - b[i]
		}
	}
	return 0
}

func sameUpTo(a, b [3]int, last int) bool {
	for i := 0; i <= last; i++ {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func firstNonZero(n [3]int) int {
	for i := range n {
		if n[i] != 0 {
			return i
		}
	}
	return 2
}

func given(parts []string) (n int) {
	for _, p := range parts {
		if p != "" {
			n++
		}
	}
	return n
}

func semver(to *string) reader {
	return func(raw json.RawMessage, path string) error {
		if err := text(to)(raw, path); err != nil {
			return err
		}
		if !versionForm().MatchString(*to) {
			return fmt.Errorf("%s: %.40q: use a version such as 1.0.0", path, *to)
		}
		return nil
	}
}

func versionRange(to *string) reader {
	return func(raw json.RawMessage, path string) error {
		if err := text(to)(raw, path); err != nil {
			return err
		}
		if _, err := Compatible(*to, "0.0.0"); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	}
}
