//go:build !js

package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// interrupts are the signals by which people and systems end a command.
func interrupts() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} }

// reportBrokenPipes makes a write fail when its reader has gone away, so that it is
// reported; by default the signal would end the process without a word. Unlike
// signal.Ignore this does not reach processes that are started. It is for the moment before
// something is written: the runtime moves to other threads for it, which run has no time for.
func reportBrokenPipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
