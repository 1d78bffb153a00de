//go:build linux && (amd64 || arm64)

package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"maelys.dev/maelys/internal/ratio"
)

// What run is measured with and against: programs of a few lines in C, without libraries
// to load.
const (
	trueSource = `int main(void) { return 0; }`

	// mountsSource makes a mount at each path that it reads, as cheaply as it can be done,
	// in a user and a mount namespace of its own, and starts a program there.
	mountsSource = `
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static void must(long r, const char *what) { if (r < 0) { perror(what); exit(1); } }
static void put(const char *file, const char *text) {
	int fd = open(file, O_WRONLY);
	must(fd, file); must(write(fd, text, strlen(text)), file); close(fd);
}
static void parents(char *path) {
	for (char *p = path + 1; *p; p++)
		if (*p == '/') { *p = 0; mkdir(path, 0755); *p = '/'; }
}
int main(int argc, char **argv) {
	char map[64], line[8192], at[8200];
	int uid = getuid(), gid = getgid();
	must(unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP), "unshare");
	put("/proc/self/setgroups", "deny");
	snprintf(map, sizeof map, "%d %d 1", uid, uid); put("/proc/self/uid_map", map);
	snprintf(map, sizeof map, "%d %d 1", gid, gid); put("/proc/self/gid_map", map);
	must(mount(0, "/", 0, MS_REC | MS_PRIVATE, 0), "private");
	must(mount("none", "/tmp", "tmpfs", 0, 0), "tmpfs");
	FILE *list = fopen(argv[1], "r");
	while (fgets(line, sizeof line, list)) {
		line[strcspn(line, "\n")] = 0;
		int fd = syscall(SYS_open_tree, AT_FDCWD, line, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
		must(fd, line);
		struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
		must(syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, &attr, sizeof attr), "mount_setattr");
		snprintf(at, sizeof at, "/tmp%s", line);
		parents(at);
		struct stat st;
		fstat(fd, &st);
		if (S_ISDIR(st.st_mode)) mkdir(at, 0755); else close(open(at, O_CREAT | O_WRONLY, 0644));
		must(syscall(SYS_move_mount, fd, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH), at);
		close(fd);
	}
	pid_t pid = fork();
	if (pid == 0) { must(chroot("/tmp"), "chroot"); chdir("/"); execv(argv[2], argv + 2); _exit(127); }
	int status;
	waitpid(pid, &status, 0);
	return status != 0;
}`

	// accessSource opens or looks at a file many times, and prints nanoseconds.
	accessSource = `
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv) {
	struct timespec a, b;
	struct stat st;
	int n = 50000, look = !strcmp(argv[1], "stat");
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < n; i++) {
		if (look) { if (stat(argv[2], &st)) return 1; continue; }
		int fd = open(argv[2], O_RDONLY);
		if (fd < 0) return 1;
		close(fd);
	}
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%ld\n", (b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec);
	return 0;
}`
)

// A bench is what the measurements of run need.
type bench struct {
	*testing.B
	dir, workspace          string
	maelys, bwrap           string
	yes, mounts, access     string // the programs above
	policy                  string
	withPolicy, confinement []string // command lines up to the program
}

func newBench(b *testing.B) *bench {
	b.Helper()
	if ok, err := condition("able"); err != nil || !ok {
		b.Skip("this host cannot enforce anything")
	}
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		b.Skip("there is no bwrap to compare with")
	}
	b.Setenv("TMPDIR", "/var/tmp")
	dir, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	e := &bench{B: b, dir: dir, bwrap: bwrap, workspace: dir + "/workspace", maelys: dir + "/maelys", policy: dir + "/policy.json"}
	// Copied, as what is installed is: the linker fills the cache of files page by page, and
	// the kernel then maps the program so.
	e.must(exec.Command("go", "build", "-trimpath", "-o", e.maelys+".linked", "../../cmd/maelys"), "CGO_ENABLED=0")
	e.must(exec.Command("cp", e.maelys+".linked", e.maelys))
	for name, source := range map[*string]string{&e.yes: trueSource, &e.mounts: mountsSource, &e.access: accessSource} {
		*name = fmt.Sprintf("%s/program%d", dir, len(source))
		compiler := exec.Command("gcc", "-O2", "-w", "-static", "-x", "c", "-o", *name, "-")
		compiler.Stdin = strings.NewReader(source)
		e.must(compiler)
	}
	if err := os.Mkdir(e.workspace, 0o755); err != nil {
		b.Fatal(err)
	}
	e.write(e.policy, `{"formatVersion": 2, "filesystem": {"default": "deny", "rules": [{"access": "read", "path": {"special": "minimal-runtime"}},
	{"access": "write", "path": {"root": "workspace"}}, {"access": "write", "path": {"root": "temp"}}]}, "network": {"mode": "none"}, "process": {"treeConfinement": "required"}}`)
	e.withPolicy = []string{e.maelys, "run", "-p", e.policy, "-w", e.workspace, "--"}
	// The same mounts and namespaces; bwrap binds the same devices by --dev.
	e.confinement = []string{
		bwrap, "--unshare-all", "--die-with-parent", "--dev", "/dev", "--tmpfs", "/dev/shm", "--proc", "/proc", "--tmpfs", "/tmp",
		"--bind", e.workspace, e.workspace, "--ro-bind", e.yes, e.yes, "--remount-ro", "/", "--chdir", e.workspace,
	}
	return e
}

func (e *bench) write(name, text string) {
	e.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		e.Fatal(err)
	}
}

func (e *bench) must(cmd *exec.Cmd, env ...string) string {
	e.Helper()
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		e.Fatalf("%q: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

// start runs a command line to its end.
func (e *bench) start(line []string, more ...string) {
	line = append(slices.Clone(line), more...)
	if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
		e.Errorf("%q: %v\n%s", line, err, out)
	}
}

// BenchmarkRatioRun runs a program that does nothing, confined by run and by bwrap.
func BenchmarkRatioRun(b *testing.B) {
	e := newBench(b)
	ratio.Measure(b, "run-true/bwrap-true", 1.0,
		func() { e.start(e.withPolicy, e.yes) },
		func() { e.start(e.confinement, e.yes) })
}

// BenchmarkRatioRunMany is that, eight at a time.
func BenchmarkRatioRunMany(b *testing.B) {
	e := newBench(b)
	together := func(line []string) func() {
		return func() {
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for range 8 {
						e.start(line, e.yes)
					}
				})
			}
			all.Wait()
		}
	}
	ratio.Measure(b, "run-64-by-8/bwrap-64-by-8", 1.0, together(e.withPolicy), together(e.confinement))
}

// BenchmarkRatioRunRules runs it under policies of many rules, against a program that makes
// as many mounts and knows nothing else.
func BenchmarkRatioRunRules(b *testing.B) {
	for _, n := range []int{100, 1000, 4000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			e := newBench(b)
			var rules, paths strings.Builder
			for i := range n {
				path := fmt.Sprintf("d%d/f%d", i/64, i)
				if err := os.MkdirAll(filepath.Join(e.workspace, filepath.Dir(path)), 0o755); err != nil {
					b.Fatal(err)
				}
				e.write(filepath.Join(e.workspace, path), "content")
				fmt.Fprintf(&rules, ",\n{\"access\": \"read\", \"path\": {\"root\": \"workspace\", \"relative\": %q}, \"scope\": \"exact\"}", path)
				fmt.Fprintln(&paths, filepath.Join(e.workspace, path))
			}
			fmt.Fprintln(&paths, e.yes)
			e.write(e.policy, `{"formatVersion": 2, "filesystem": {"default": "deny", "rules": [{"access": "read", "path": {"special": "minimal-runtime"}}`+
				rules.String()+`]}, "network": {"mode": "none"}, "process": {"treeConfinement": "required"}}`)
			e.write(e.dir+"/paths", paths.String())
			ratio.Measure(b, fmt.Sprintf("run-%d-rules/bare-mounts", n), 2.0,
				func() { e.start(e.withPolicy, e.yes) },
				func() { e.start([]string{e.mounts, e.dir + "/paths"}, e.yes) })
		})
	}
}

// BenchmarkRatioAccess opens a file, and looks at one, inside and outside.
func BenchmarkRatioAccess(b *testing.B) {
	for _, what := range []string{"open", "stat"} {
		b.Run(what, func(b *testing.B) {
			e := newBench(b)
			file := e.workspace + "/a/b/file"
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				b.Fatal(err)
			}
			e.write(file, "content")
			took := func(line ...string) float64 {
				n, err := strconv.ParseFloat(strings.TrimSpace(e.must(exec.Command(line[0], line[1:]...))), 64)
				if err != nil {
					b.Fatal(err)
				}
				return n
			}
			var ratios []float64
			for b.Loop() {
				ratios = append(ratios, took(append(slices.Clone(e.withPolicy), e.access, what, file)...)/took(e.access, what, file))
			}
			slices.Sort(ratios)
			ratio.Print(os.Stdout, what+"-inside/outside", ratios[len(ratios)/2], 1.5)
		})
	}
}

// BenchmarkRatioHundred has a hundred sandboxes at once: how long it takes until all are
// there, and what the launcher and the init of one take of memory, against bwrap.
func BenchmarkRatioHundred(b *testing.B) {
	e := newBench(b)
	var memory []float64
	hundred := func(line ...string) {
		all := make([]*shell, 100)
		for i := range all {
			all[i] = startShell(b, line)
		}
		for _, s := range all {
			s.ready(b)
		}
		memory = append(memory, float64(proportional(b, all[0].cmd.Process.Pid)))
		for _, s := range all {
			s.end(b)
		}
	}
	const script = "echo ready; read x"
	run := slices.Concat(e.withPolicy[:len(e.withPolicy)-1], []string{"--runtime-root", "/usr", "--", "/bin/sh", "-c", script})
	system := []string{"--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"}
	bwrap := slices.Concat(e.confinement[:1], system, e.confinement[1:], []string{"/bin/sh", "-c", script})
	ratio.Measure(b, "run-100-at-once/bwrap", 1.0, func() { hundred(run...) }, func() { hundred(bwrap...) })
	ratio.Print(os.Stdout, "memory-KiB-of-launcher-and-init/bwrap", memory[0]/memory[1], memory[0])
}

// A shell is one that says when it is there, and ends when it is told something.
type shell struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.Reader
}

func startShell(b *testing.B, line []string) *shell {
	b.Helper()
	s := &shell{cmd: exec.Command(line[0], line[1:]...)}
	var err, failed error
	s.in, err = s.cmd.StdinPipe()
	s.out, failed = s.cmd.StdoutPipe()
	if err := errors.Join(err, failed, s.cmd.Start()); err != nil {
		b.Fatal(err)
	}
	return s
}

func (s *shell) ready(b *testing.B) {
	b.Helper()
	if text, err := io.ReadAll(io.LimitReader(s.out, 6)); err != nil || string(text) != "ready\n" {
		b.Fatalf("%q said %q (%v)", s.cmd.Args, text, err)
	}
}

func (s *shell) end(b *testing.B) {
	b.Helper()
	if err := errors.Join(s.in.Close(), s.cmd.Wait()); err == nil { // its input has ended, which it takes for a failure
		b.Fatalf("%q: it has read something", s.cmd.Args)
	}
}

// proportional returns the memory of a process and its children, in KiB, without the command:
// what is shared counts in parts.
func proportional(b *testing.B, pid int) int {
	b.Helper()
	total := 0
	for _, p := range append(children(pid), pid) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", p))
		if err != nil {
			continue // only root may see that of an init
		}
		for line := range bytes.Lines(text) {
			if rest, ok := bytes.CutPrefix(line, []byte("Pss:")); ok {
				n, _ := strconv.Atoi(string(bytes.Fields(rest)[0]))
				total += n
			}
		}
	}
	return total
}

func children(pid int) []int {
	var all []int
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, t := range tasks {
		text, _ := os.ReadFile(t)
		for f := range strings.FieldsSeq(string(text)) {
			n, _ := strconv.Atoi(f)
			all = append(all, n)
		}
	}
	return all
}
