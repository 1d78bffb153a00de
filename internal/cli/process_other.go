//go:build !unix

package cli

import "os"

func forwarded() []os.Signal { return nil }

func stopSelf(os.Signal) {}

func inherited(int) bool { return false }
