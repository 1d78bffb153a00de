package linux

import "golang.org/x/sys/unix"

const (
	architecture     = unix.AUDIT_ARCH_AARCH64
	firstForeignCall = 1<<32 - 1 // there are none
)

// machineCalls are refused calls that only this machine has.
var machineCalls = [...]uint32{}

var machineAlone = [...]uint32{}
