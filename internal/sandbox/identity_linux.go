package sandbox

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre/internal/disk"
)

// Identify returns the identity of a living process.
func Identify(pid int) (Identity, error) {
	boot, err := disk.Boot()
	if err != nil {
		return Identity{}, err
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Identity{}, err
	}
	// The name in parentheses may hold anything; field 22 is the start.
	_, rest, _ := strings.Cut(string(stat[max(0, strings.LastIndexByte(string(stat), ')')):]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 20 || fields[0] == "Z" {
		return Identity{}, fmt.Errorf("process %d: %w", pid, os.ErrNotExist)
	}
	return Identity{boot, pid, fields[19]}, nil
}
