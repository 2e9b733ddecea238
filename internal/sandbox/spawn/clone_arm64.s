#include "go_asm.h"
#include "textflag.h"

// Numbers of system calls, and SIG_SETMASK.
#define RT_SIGPROCMASK 135
#define WRITE 64
#define CLONE 220
#define EXIT_GROUP 94
#define SETMASK 2

// func clone(flags, first, end, failure uintptr) uintptr
//
// As for amd64: R19 is the call, R20 the end of the list, R21 where the child reports.
TEXT ·clone(SB), NOSPLIT, $16-40
	MOVD	$-1, R0
	MOVD	R0, all-8(SP)
	MOVD	$RT_SIGPROCMASK, R8
	MOVD	$SETMASK, R0
	MOVD	$all-8(SP), R1
	MOVD	$old-16(SP), R2
	MOVD	$8, R3
	SVC
	MOVD	flags+0(FP), R0
	MOVD	first+8(FP), R19
	MOVD	end+16(FP), R20
	MOVD	failure+24(FP), R21
	MOVD	$CLONE, R8
	MOVD	ZR, R1
	MOVD	ZR, R2
	MOVD	ZR, R3
	MOVD	ZR, R4
	SVC
	CBZ	R0, call
	MOVD	R0, ret+32(FP)
	MOVD	$RT_SIGPROCMASK, R8
	MOVD	$SETMASK, R0
	MOVD	$old-16(SP), R1
	MOVD	ZR, R2
	MOVD	$8, R3
	SVC
	RET

call:
	CMP	R20, R19
	BHS	exit
	MOVD	call_number(R19), R8
	MOVD	call_args+0(R19), R0
	MOVD	call_args+8(R19), R1
	MOVD	call_args+16(R19), R2
	MOVD	call_args+24(R19), R3
	MOVD	call_args+32(R19), R4
	SVC
	MOVD	R0, call_result(R19)
	MOVD	call_least(R19), R1
	CMP	R1, R0
	BLT	failed
	ADD	$call__size, R19
	B	call

failed:
	MOVD	$WRITE, R8
	MOVD	R21, R0
	MOVD	R19, R1
	MOVD	$call__size, R2
	SVC

exit:
	MOVD	$EXIT_GROUP, R8
	MOVD	$127, R0
	SVC
	B	exit
