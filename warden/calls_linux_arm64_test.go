package warden_test

const (
	setns          = 268
	bpf            = 280
	userfaultfd    = 282
	finitModule    = 273
	openByHandleAt = 265
	sysPpoll       = 73
	sysSeccomp     = 277
)
