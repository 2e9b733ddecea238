package servecmd

import (
	"context"
	"errors"
	"net"
	"time"
)

// managerTime is how long the service manager may take to listen.
const managerTime = 5 * time.Second

// tellManager tells the service manager that started nacre how it goes, where one did:
// sd_notify(3) of systemd.
func (cmd serveCommand) tellManager(ctx context.Context, state string) {
	address := cmd.Getenv("NOTIFY_SOCKET")
	if address == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), managerTime) // it is told of the end, too
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unixgram", address)
	if err == nil {
		_, err = conn.Write([]byte(state))
		err = errors.Join(err, conn.Close())
	}
	if err != nil {
		cmd.Printer(cmd.Stderr).Mark("warn", "manager", "the service manager could not be told "+state+": "+err.Error())
	}
}
