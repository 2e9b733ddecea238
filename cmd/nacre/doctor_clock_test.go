package main_test

import (
	"os"
	"regexp"
	"testing"
	"time"
)

// M-60: doctor says that the clock is behind what sessions of before were begun by.
func TestDoctorSeesAClockThatIsBehind(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.nacre("exec", "-q", "--session", "later", "--", "true").want(t, 0)
	has(t, i.nacre("doctor", "--no-turns").stdout, "no session began later than now")
	file := i.state("sessions", "later", "session.json")
	later := time.Now().Add(3*time.Hour + 30*time.Second).UTC().Format(time.RFC3339Nano)
	text := regexp.MustCompile(`"started": "[^"]*"`).ReplaceAllString(fileText(file), `"started": "`+later+`"`)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(i.state("sessions.index")); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	has(t, i.nacre("doctor", "--no-turns").stdout, "clock  session later began 3h0m", "this machine's clock is behind", "set the clock")
}
