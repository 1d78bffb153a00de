#include "textflag.h"

// func vfork() (pid, errno uintptr)
//
// The child runs on the same stack until it starts a program, and overwrites what lies
// below the frame of the caller, the return address too: it is kept in a register, of
// which each process has its own.
TEXT ·vfork(SB),NOSPLIT|NOFRAME,$0-16
	POPQ	R12
	MOVQ	$56, AX		// clone
	MOVQ	$0x4111, DI	// CLONE_VFORK | CLONE_VM | SIGCHLD
	XORQ	SI, SI
	XORQ	DX, DX
	XORQ	R10, R10
	XORQ	R8, R8
	SYSCALL
	PUSHQ	R12
	CMPQ	AX, $0xfffffffffffff001
	JLS	made
	NEGQ	AX
	MOVQ	$0, pid+0(FP)
	MOVQ	AX, errno+8(FP)
	RET
made:
	MOVQ	AX, pid+0(FP)
	MOVQ	$0, errno+8(FP)
	RET

// func clone(flags, stack, m, begin uintptr) (pid, errno uintptr)
//
// The storage of this thread is in the heap, which the child does not have. A call between
// Go and assembly reads the goroutine from it, though nothing is done with that: the
// child's is beneath the top of its stack.
TEXT ·clone(SB),NOSPLIT|NOFRAME,$0-48
	MOVQ	$56, AX
	MOVQ	flags+0(FP), DI
	MOVQ	stack+8(FP), SI
	MOVQ	m+16(FP), R12
	MOVQ	begin+24(FP), R13
	XORQ	DX, DX
	XORQ	R10, R10
	XORQ	R8, R8
	SYSCALL
	TESTQ	AX, AX
	JEQ	child
	CMPQ	AX, $0xfffffffffffff001
	JLS	made
	NEGQ	AX
	MOVQ	$0, pid+32(FP)
	MOVQ	AX, errno+40(FP)
	RET
made:
	MOVQ	AX, pid+32(FP)
	MOVQ	$0, errno+40(FP)
	RET
child:
	MOVQ	$158, AX	// arch_prctl
	MOVQ	$0x1002, DI	// ARCH_SET_FS
	MOVQ	SP, SI
	SYSCALL
	// The registers of a Go function: its argument, zero, no goroutine.
	MOVQ	R12, AX
	XORPS	X15, X15
	XORQ	R14, R14
	XORQ	BP, BP
	CALL	R13
	INT	$3
