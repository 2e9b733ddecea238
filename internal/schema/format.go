package schema

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp/syntax"
	"strings"
	"time"
)

// The limits of names: RFC 1035, and RFC 5321.
const (
	maxHost, maxLabel = 253, 63
	maxMail, maxLocal = 254, 64
)

// checkFormat says why a text is not of a format.
func checkFormat(format, text string) error {
	switch format {
	case "date":
		_, err := time.Parse(time.DateOnly, text)
		return err
	case "time":
		return checkTime(text)
	case "date-time":
		return checkDateTime(text)
	case "duration":
		return checkDuration(text)
	case "period":
		return checkPeriod(text)
	case "email":
		return checkMail(text)
	case "hostname":
		return checkHost(text)
	case "ipv4":
		return checkIPv4(text)
	case "ipv6":
		return checkIPv6(text)
	case "uri", "iri":
		return checkURI(text)
	case "uri-reference", "iri-reference":
		return checkReference(text)
	case "uri-template":
		return checkTemplate(text)
	case "uuid":
		return checkUUID(text)
	case "json-pointer":
		return checkPointer(text)
	case "relative-json-pointer":
		return checkRelativePointer(text)
	case "regex":
		_, err := syntax.Parse(text, syntax.Perl)
		return err
	case "semver":
		return checkVersion(text)
	}
	return errors.New("nothing checks the format")
}

// onlyOf reports whether a text is one or more of some letters and digits, and of
// the characters in more.
func onlyOf(text string, letters bool, more string) bool {
	for _, r := range text {
		switch {
		case '0' <= r && r <= '9':
		case letters && ('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'):
		case strings.ContainsRune(more, r):
		default:
			return false
		}
	}
	return text != ""
}

func isDigits(text string) bool { return onlyOf(text, false, "") }

// checkTime checks hh:mm:ss, a fraction and an offset (RFC 3339, 5.6). A leap second
// is the last of a day of UTC.
func checkTime(text string) error {
	if len(text) < len("00:00:00Z") {
		return errors.New("want hh:mm:ss and an offset or Z")
	}
	hour, minute, second, ok := clock(text[:8])
	if !ok {
		return errors.New("hours, minutes and seconds are not of a clock")
	}
	rest := text[8:]
	if fraction, there := strings.CutPrefix(rest, "."); there {
		rest = strings.TrimLeft(fraction, "0123456789")
		if len(rest) == len(fraction) {
			return errors.New("the fraction of a second has no digits")
		}
	}
	offset, err := offsetOf(rest)
	if err != nil {
		return err
	}
	const day = 24 * 60
	if second == 60 && (hour*60+minute-offset+day)%day != day-1 {
		return errors.New("there is no leap second then")
	}
	return nil
}

// clock reads hh:mm:ss.
func clock(text string) (hour, minute, second int, ok bool) {
	if text[2] != ':' || text[5] != ':' {
		return 0, 0, 0, false
	}
	hour, minute, second = pair(text), pair(text[3:]), pair(text[6:])
	return hour, minute, second, 0 <= hour && hour < 24 && 0 <= minute && minute < 60 && 0 <= second && second <= 60
}

// pair reads two digits; less than zero is none.
func pair(text string) int {
	if !isDigits(text[:2]) {
		return -1
	}
	return int(text[0]-'0')*10 + int(text[1]-'0')
}

// offsetOf reads Z, or an offset from UTC in minutes.
func offsetOf(text string) (minutes int, err error) {
	if text == "Z" || text == "z" {
		return 0, nil
	}
	if len(text) != len("+00:00") || text[0] != '+' && text[0] != '-' || text[3] != ':' {
		return 0, errors.New("the offset is neither Z nor like +00:00")
	}
	hour, minute := pair(text[1:]), pair(text[4:])
	if hour < 0 || hour > 23 || minute < 0 || minute > 59 {
		return 0, errors.New("the offset is not of a clock")
	}
	if minutes = hour*60 + minute; text[0] == '-' {
		minutes = -minutes
	}
	return minutes, nil
}

func checkDateTime(text string) error {
	const date = len(time.DateOnly)
	if len(text) <= date || text[date] != 'T' && text[date] != 't' {
		return errors.New("want a date, T and a time")
	}
	if _, err := time.Parse(time.DateOnly, text[:date]); err != nil {
		return err
	}
	return checkTime(text[date+1:])
}

// checkDuration checks that of ISO 8601 (RFC 3339, appendix A).
func checkDuration(text string) error {
	span, ok := strings.CutPrefix(text, "P")
	if weeks, only := strings.CutSuffix(span, "W"); ok && only && isDigits(weeks) {
		return nil
	}
	days, times, timed := strings.Cut(span, "T")
	if !ok || span == "" || !inUnits(days, "YMD") || !inUnits(times, "HMS") || timed && times == "" {
		return errors.New("want a duration like P1DT2H")
	}
	return nil
}

// inUnits says that a text is numbers, each with one of the units, in their order.
func inUnits(text, units string) bool {
	for text != "" {
		rest := strings.TrimLeft(text, "0123456789")
		if rest == "" || len(rest) == len(text) {
			return false
		}
		at := strings.IndexByte(units, rest[0])
		if at < 0 {
			return false
		}
		text, units = rest[1:], units[at+1:]
	}
	return true
}

// checkPeriod checks that one end is a time, and the other a time or a duration.
func checkPeriod(text string) error {
	start, end, ok := strings.Cut(text, "/")
	if !ok {
		return errors.New("want a start, / and an end")
	}
	if strings.HasPrefix(start, "P") {
		return errors.Join(checkDuration(start), checkDateTime(end))
	}
	if strings.HasPrefix(end, "P") {
		return errors.Join(checkDateTime(start), checkDuration(end))
	}
	return errors.Join(checkDateTime(start), checkDateTime(end))
}

func checkHost(text string) error {
	text = strings.TrimSuffix(text, ".")
	if len(text) > maxHost {
		return fmt.Errorf("a host's name has at most %d characters", maxHost)
	}
	for label := range strings.SplitSeq(text, ".") {
		if len(label) > maxLabel || !onlyOf(label, true, "-") || label[0] == '-' || label[len(label)-1] == '-' {
			return fmt.Errorf("a label is 1 to %d letters, digits and hyphens, no hyphen at its ends", maxLabel)
		}
	}
	return nil
}

func checkMail(text string) error {
	at := strings.LastIndexByte(text, '@')
	if at < 0 || len(text) > maxMail || at > maxLocal {
		return fmt.Errorf("want a name, @ and a host, of at most %d characters", maxMail)
	}
	local, domain := text[:at], text[at+1:]
	if len(local) > 1 && local[0] == '"' && local[len(local)-1] == '"' {
		if strings.ContainsAny(local[1:len(local)-1], `\"`) {
			return errors.New(`a name in quotes has neither \ nor "`)
		}
	} else if local != "" && !onlyOf(local, true, ".!#$%&'*+-/=?^_`{|}~") ||
		strings.HasPrefix(local, ".") || strings.HasSuffix(local, ".") || strings.Contains(local, "..") {
		return errors.New("the name before @ is none")
	}
	if !strings.HasPrefix(domain, "[") || !strings.HasSuffix(domain, "]") {
		return checkHost(domain)
	}
	literal := domain[1 : len(domain)-1]
	if six, ok := strings.CutPrefix(literal, "IPv6:"); ok {
		return checkIPv6(six)
	}
	return checkIPv4(literal)
}

func checkIPv4(text string) error {
	if address, err := netip.ParseAddr(text); err != nil || !address.Is4() {
		return errors.New("want four numbers from 0 to 255 with dots between")
	}
	return nil
}

func checkIPv6(text string) error {
	if address, err := netip.ParseAddr(text); err != nil || !address.Is6() || address.Zone() != "" {
		return errors.New("want an address of IPv6, without a zone")
	}
	return nil
}

// parsed reads an address, whose host is one of IPv6 in brackets only.
func parsed(text string) (*url.URL, error) {
	address, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	if host := address.Hostname(); strings.Contains(host, ":") {
		if !strings.HasPrefix(address.Host, "[") {
			return nil, errors.New("an address of IPv6 stands in brackets")
		}
		return address, checkIPv6(host)
	}
	return address, nil
}

func checkURI(text string) error {
	address, err := parsed(text)
	if err == nil && !address.IsAbs() {
		err = errors.New("it has no scheme")
	}
	return err
}

func checkReference(text string) error {
	if strings.Contains(text, `\`) {
		return errors.New(`it has a \ in it`)
	}
	_, err := parsed(text)
	return err
}

// checkTemplate checks that braces are opened and closed in turn, in each part of a path.
func checkTemplate(text string) error {
	address, err := parsed(text)
	if err != nil {
		return err
	}
	for part := range strings.SplitSeq(address.RawPath, "/") {
		plain, err := url.PathUnescape(part)
		if err != nil {
			return err
		}
		open := false
		for _, r := range plain {
			if r == '{' && open || r == '}' && !open {
				return errors.New("braces are not opened and closed in turn")
			}
			open = open && r != '}' || r == '{'
		}
		if open {
			return errors.New("a brace is not closed")
		}
	}
	return nil
}

func checkUUID(text string) error {
	groups := strings.Split(text, "-")
	lengths := []int{8, 4, 4, 4, 12}
	ok := len(groups) == len(lengths)
	for i := 0; ok && i < len(groups); i++ {
		ok = len(groups[i]) == lengths[i] && strings.Trim(groups[i], "0123456789abcdefABCDEF") == ""
	}
	if !ok {
		return errors.New("want 8, 4, 4, 4 and 12 hexadecimal digits with hyphens between")
	}
	return nil
}

func checkPointer(text string) error {
	if text != "" && text[0] != '/' {
		return errors.New("it does not start with /")
	}
	for rest := text; ; {
		_, after, there := strings.Cut(rest, "~")
		if !there {
			return nil
		}
		if after == "" || after[0] != '0' && after[0] != '1' {
			return errors.New("~ is followed by 0 or 1")
		}
		rest = after
	}
}

func checkRelativePointer(text string) error {
	rest := strings.TrimLeft(text, "0123456789")
	digits := len(text) - len(rest)
	if digits == 0 || digits > 1 && text[0] == '0' {
		return errors.New("it does not start with a number")
	}
	if rest == "#" {
		return nil
	}
	return checkPointer(rest)
}

// checkVersion checks a version by semver.org.
func checkVersion(text string) error {
	text, build, built := strings.Cut(text, "+")
	core, before, early := strings.Cut(text, "-")
	ok := strings.Count(core, ".") == 2
	for number := range strings.SplitSeq(core, ".") {
		ok = ok && isVersionNumber(number)
	}
	if early {
		for part := range strings.SplitSeq(before, ".") {
			ok = ok && onlyOf(part, true, "-") && (!isDigits(part) || isVersionNumber(part))
		}
	}
	if built {
		for part := range strings.SplitSeq(build, ".") {
			ok = ok && onlyOf(part, true, "-")
		}
	}
	if !ok {
		return errors.New("want a version like 1.2.3, 1.2.3-rc.1 or 1.2.3+build")
	}
	return nil
}

func isVersionNumber(text string) bool {
	return isDigits(text) && (text == "0" || text[0] != '0')
}
