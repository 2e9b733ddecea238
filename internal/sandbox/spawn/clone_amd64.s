#include "go_asm.h"
#include "textflag.h"

// Numbers of system calls, and SIG_SETMASK.
#define RT_SIGPROCMASK 14
#define WRITE 1
#define CLONE 56
#define EXIT_GROUP 231
#define SETMASK 2

// func clone(flags, first, end, failure uintptr) uintptr
//
// The child knows nothing but its registers: BX is the call it makes, R12 the
// end of the list, R13 where it reports. It touches no stack, and no signal
// reaches it before its list says so.
TEXT ·clone(SB), NOSPLIT, $16-40
	MOVQ	$-1, AX
	MOVQ	AX, all-8(SP)
	MOVQ	$RT_SIGPROCMASK, AX
	MOVQ	$SETMASK, DI
	LEAQ	all-8(SP), SI
	LEAQ	old-16(SP), DX
	MOVQ	$8, R10
	SYSCALL
	MOVQ	flags+0(FP), DI
	MOVQ	first+8(FP), BX
	MOVQ	end+16(FP), R12
	MOVQ	failure+24(FP), R13
	MOVQ	$CLONE, AX
	XORL	SI, SI
	XORL	DX, DX
	XORL	R10, R10
	XORL	R8, R8
	SYSCALL
	TESTQ	AX, AX
	JZ	call
	MOVQ	AX, ret+32(FP)
	MOVQ	$RT_SIGPROCMASK, AX
	MOVQ	$SETMASK, DI
	LEAQ	old-16(SP), SI
	XORL	DX, DX
	MOVQ	$8, R10
	SYSCALL
	RET

call:
	CMPQ	BX, R12
	JAE	exit
	MOVQ	call_number(BX), AX
	MOVQ	call_args+0(BX), DI
	MOVQ	call_args+8(BX), SI
	MOVQ	call_args+16(BX), DX
	MOVQ	call_args+24(BX), R10
	MOVQ	call_args+32(BX), R8
	SYSCALL
	MOVQ	AX, call_result(BX)
	CMPQ	AX, call_least(BX)
	JLT	failed
	ADDQ	$call__size, BX
	JMP	call

failed:
	MOVQ	$WRITE, AX
	MOVQ	R13, DI
	MOVQ	BX, SI
	MOVQ	$call__size, DX
	SYSCALL

exit:
	MOVQ	$EXIT_GROUP, AX
	MOVQ	$127, DI
	SYSCALL
	JMP	exit
