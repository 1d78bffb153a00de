package linux

import "golang.org/x/sys/unix"

const (
	architecture     = unix.AUDIT_ARCH_X86_64
	firstForeignCall = 0x40000000 // __X32_SYSCALL_BIT
)

// machineCalls are refused calls that only this machine has.
var machineCalls = [...]uint32{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS_SYSFS, unix.SYS__SYSCTL, unix.SYS_MODIFY_LDT}

// machineAlone are those of them that are refused where there are no namespaces.
var machineAlone = [...]uint32{
	unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT, unix.SYS_INOTIFY_INIT,
}
