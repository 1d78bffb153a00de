//go:build !linux || !(amd64 || arm64)

package mediator

// serving is nothing where there is no sandbox whose connections come in.
type serving struct{}
