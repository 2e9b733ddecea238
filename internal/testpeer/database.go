package testpeer

import (
	"net/url"
	"os/exec"
	"testing"
)

// Database makes an empty database in the server at an address of [Postgres], and returns
// its own address.
func Database(t testing.TB, server, name string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	psql := postgresProgram(t, "psql")
	if out, err := exec.CommandContext(t.Context(), psql, "--no-psqlrc", "--command=CREATE DATABASE "+name, server).CombinedOutput(); err != nil {
		t.Fatalf("create database: %v\n%s", err, out)
	}
	u.Path = "/" + name
	return u.String()
}
