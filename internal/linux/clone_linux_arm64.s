#include "textflag.h"

// func vfork() (pid, errno uintptr)
//
// The child runs on the same stack until it starts a program. The return address is in a
// register, of which each process has its own.
TEXT ·vfork(SB),NOSPLIT|NOFRAME,$0-16
	MOVD	$220, R8	// clone
	MOVD	$0x4111, R0	// CLONE_VFORK | CLONE_VM | SIGCHLD
	MOVD	ZR, R1
	MOVD	ZR, R2
	MOVD	ZR, R3
	MOVD	ZR, R4
	SVC
	CMN	$4095, R0
	BCC	made
	NEG	R0, R0
	MOVD	ZR, pid+0(FP)
	MOVD	R0, errno+8(FP)
	RET
made:
	MOVD	R0, pid+0(FP)
	MOVD	ZR, errno+8(FP)
	RET

// func clone(flags, stack, m, begin uintptr) (pid, errno uintptr)
TEXT ·clone(SB),NOSPLIT|NOFRAME,$0-48
	MOVD	$220, R8
	MOVD	flags+0(FP), R0
	MOVD	stack+8(FP), R1
	MOVD	m+16(FP), R10
	MOVD	begin+24(FP), R11
	MOVD	ZR, R2
	MOVD	ZR, R3
	MOVD	ZR, R4
	SVC
	CBZ	R0, child
	CMN	$4095, R0
	BCC	made
	NEG	R0, R0
	MOVD	ZR, pid+32(FP)
	MOVD	R0, errno+40(FP)
	RET
made:
	MOVD	R0, pid+32(FP)
	MOVD	ZR, errno+40(FP)
	RET
child:
	MOVD	R10, R0
	MOVD	ZR, R29
	CALL	(R11)
	BRK
