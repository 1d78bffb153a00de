package warden_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"testing"

	"maelys.dev/maelys/warden"
)

const processVMReadv = 310

// A program of 64 or 32 bits that is only these instructions (elf(5)).
func executable(t *testing.T, wide bool, code []byte) string {
	t.Helper()
	const base = 0x400000
	var b bytes.Buffer
	put := func(fields ...any) {
		for _, f := range fields {
			if err := binary.Write(&b, binary.LittleEndian, f); err != nil {
				t.Fatal(err)
			}
		}
	}
	if wide {
		const header = 64 + 56
		size := uint64(header + len(code))
		put([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9), uint16(2), uint16(62), uint32(1), uint64(base+header), uint64(64), uint64(0))
		put(uint32(0), uint16(64), uint16(56), uint16(1), uint16(0), uint16(0), uint16(0))
		put(uint32(1), uint32(5), uint64(0), uint64(base), uint64(base), size, size, uint64(0x1000))
	} else {
		const header = 52 + 32
		size := uint32(header + len(code))
		put([]byte("\x7fELF\x01\x01\x01"), make([]byte, 9), uint16(2), uint16(3), uint32(1), uint32(base+header), uint32(52), uint32(0))
		put(uint32(0), uint16(52), uint16(32), uint16(1), uint16(0), uint16(0), uint16(0))
		put(uint32(1), uint32(0), uint32(base), uint32(base), size, size, uint32(5), uint32(0x1000))
	}
	put(code)
	dir := project(t)
	if err := os.WriteFile(dir+"/foreign", b.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestForeignCalls makes system calls of other machines, which have other numbers: a
// filter that knows only its own would take them for harmless ones.
func TestForeignCalls(t *testing.T) {
	available(t)
	const (
		oldExit = "\xbb\x2a\x00\x00\x00\xb8\x01\x00\x00\x00\xcd\x80" // exit(42) of 32 bits
		exit    = "\xbf\x2a\x00\x00\x00\xb8\x3c\x00\x00\x00\x0f\x05" // exit(42)
	)
	for name, c := range map[string]struct {
		wide   bool
		code   string
		inside int
	}{
		"none":                             {true, exit, 42},                                                       // the control
		"of 32 bits in a program of 64":    {true, "\xb8\x14\x00\x00\x00\xcd\x80" + exit, 159},                     // mov $20, %eax; int $0x80: getpid
		"of 32 bits in a program of those": {false, oldExit, 159},                                                  // mov $42, %ebx; mov $1, %eax; int $0x80
		"of x32":                           {true, "\xb8\x27\x00\x00\x40\x0f\x05" + exit, 159},                     // mov $0x40000027, %eax; syscall: getpid
		"of x32 that makes a namespace":    {true, "\xbf\x00\x00\x00\x10\xb8\x10\x01\x00\x40\x0f\x05" + exit, 159}, // unshare(CLONE_NEWUSER)
	} {
		t.Run(name, func(t *testing.T) {
			dir := executable(t, c.wide, []byte(c.code))
			b := newBox(t, dir, "write tree workspace:")
			receipt, err := warden.Run(t.Context(), b.plan, warden.Command{Path: dir + "/foreign", Args: []string{"foreign"}, Dir: dir})
			if err != nil || receipt.Status != c.inside || (receipt.Outcome == warden.Signaled) != (c.inside == 159) {
				t.Errorf("inside: %+v, %v, want status %d", receipt, err, c.inside)
			}
			cmd := exec.CommandContext(t.Context(), dir+"/foreign")
			if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 42 {
				unavailable(t, "this kernel has no calls "+name+": "+err.Error())
			}
		})
	}
}
