package deps

import (
	_ "github.com/BurntSushi/toml"
	_ "github.com/dbos-inc/dbos-transact-golang/dbos"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/santhosh-tekuri/jsonschema/v6"
	_ "github.com/spf13/cobra"
	_ "go.uber.org/goleak"
	_ "golang.org/x/net/dns/dnsmessage"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "golang.org/x/text/cases"
	_ "modernc.org/sqlite"
	_ "pgregory.net/rapid"
)
