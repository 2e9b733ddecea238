package task

import "github.com/nacre-dev/nacre"

// Await starts a workflow and waits for it, as Run does.
var Await = await[nacre.RunResult]
