//go:build !unix && !wasip1 && !js

package cli_test

func setUmask() {}

func ordinary([]string) int { return 125 }
