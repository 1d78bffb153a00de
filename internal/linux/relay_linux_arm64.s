#include "textflag.h"

// relay is the handler of a signal, with its number in R0: it sends that to relayTo, as
// eight bytes. The kernel gives back all registers afterwards, and has the handler return
// to a place of its own.
TEXT ·relay(SB),NOSPLIT|NOFRAME|TOPFRAME,$0
	CMPW	$21, R0		// SIGTTIN
	BEQ	done
	CMPW	$22, R0		// SIGTTOU
	BEQ	done
	SUB	$16, RSP
	MOVWU	R0, R1
	MOVD	R1, (RSP)
	MOVW	·relayTo(SB), R0
	SUBW	$1, R0
	MOVD	RSP, R1
	MOVD	$8, R2
	MOVD	$0x4040, R3	// MSG_NOSIGNAL | MSG_DONTWAIT
	MOVD	ZR, R4
	MOVD	ZR, R5
	MOVD	$206, R8	// sendto
	SVC
	ADD	$16, RSP
done:
	RET

DATA ·relayPC(SB)/8, $·relay(SB)
GLOBL ·relayPC(SB), NOPTR, $8
