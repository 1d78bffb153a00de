package cli

import "os"

// interrupts is empty where there are no signals.
func interrupts() []os.Signal { return nil }

// reportBrokenPipes has nothing to do where there are no signals.
func reportBrokenPipes() {}
