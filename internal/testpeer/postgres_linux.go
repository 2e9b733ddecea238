package testpeer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// SmallPostgres is [Postgres] on a disk of its own of so many MiB. fill fills the disk to the last byte,
// makeRoom makes room again, and start starts the server once more where that has ended it. It needs root, to
// mount the disk.
func SmallPostgres(t testing.TB, size int) (address string, fill, makeRoom, start func()) {
	t.Helper()
	folder := postgresFolder(t)
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0700,uid=%d,gid=%d", size, nobody, nobody)); err != nil {
		t.Skipf("no small disk can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(folder, syscall.MNT_DETACH) }) // before the folder goes
	startPostgres(t, folder)
	filler := filepath.Join(folder, "filler")
	fill = func() {
		t.Helper()
		f, err := os.OpenFile(filler, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		_ = f.Close() // nothing of it is wanted
	}
	makeRoom = func() {
		t.Helper()
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	}
	return postgresAt(folder), fill, makeRoom, func() {
		t.Helper()
		asUser(t, folder, postgresProgram(t, "pg_ctl"), "restart", "--mode=immediate", "--wait", "--timeout=120", "--pgdata="+filepath.Join(folder, "data"), "--log="+filepath.Join(folder, "log"))
	}
}
