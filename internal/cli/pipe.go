//go:build !js

package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// reportBrokenPipes makes a write fail when its reader has gone away, so that it is
// reported; by default the signal would end the process without a word. Unlike
// signal.Ignore this does not reach processes that are started.
func reportBrokenPipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
