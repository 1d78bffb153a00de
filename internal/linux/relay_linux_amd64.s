#include "textflag.h"

// relay is the handler of a signal, with its number in DI: it sends that to relayTo, as
// eight bytes. The kernel gives back all registers afterwards.
TEXT ·relay(SB),NOSPLIT|NOFRAME|TOPFRAME,$0
	CMPL	DI, $21		// SIGTTIN
	JEQ	done
	CMPL	DI, $22		// SIGTTOU
	JEQ	done
	SUBQ	$24, SP
	MOVL	DI, DI
	MOVQ	DI, 0(SP)
	MOVL	·relayTo(SB), DI
	DECL	DI
	MOVQ	SP, SI
	MOVQ	$8, DX
	MOVQ	$0x4040, R10	// MSG_NOSIGNAL | MSG_DONTWAIT
	XORQ	R8, R8
	XORQ	R9, R9
	MOVQ	$44, AX		// sendto
	SYSCALL
	ADDQ	$24, SP
done:
	RET

// restorer is where a handler returns to (SA_RESTORER).
TEXT ·restorer(SB),NOSPLIT|NOFRAME|TOPFRAME,$0
	MOVQ	$15, AX		// rt_sigreturn
	SYSCALL
	INT	$3

DATA ·relayPC(SB)/8, $·relay(SB)
GLOBL ·relayPC(SB), NOPTR, $8
DATA ·restorerPC(SB)/8, $·restorer(SB)
GLOBL ·restorerPC(SB), NOPTR, $8
