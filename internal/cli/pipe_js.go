package cli

// reportBrokenPipes has nothing to do where there are no signals.
func reportBrokenPipes() {}
