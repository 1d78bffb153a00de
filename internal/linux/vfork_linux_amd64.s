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
