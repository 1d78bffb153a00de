package linux

import "golang.org/x/sys/unix"

const (
	architecture     = unix.AUDIT_ARCH_X86_64
	firstForeignCall = 0x40000000 // __X32_SYSCALL_BIT
)

// machineCalls are refused calls that only this machine has.
var machineCalls = [...]uint32{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS_SYSFS, unix.SYS__SYSCTL, unix.SYS_MODIFY_LDT}
