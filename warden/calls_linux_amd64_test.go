package warden_test

const (
	setns          = 308
	bpf            = 321
	userfaultfd    = 323
	finitModule    = 313
	openByHandleAt = 304
	sysPpoll       = 271
	sysSeccomp     = 317
)
