//go:build linux && (amd64 || arm64)

package cli_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/cgi"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A networkJob is what unchanged programs do with a mediated network: without proxy variables,
// and with servers of this test, which are elsewhere than their names say.
type networkJob struct {
	name    string
	needs   []string          // programs of the host
	policy  []string          // what it needs and no more: "read /usr", "tcp HOST:PORT", each on its own line with the reason
	project map[string]string // files of the workspace, by the name of a fixture where that begins with "@"
	before  string            // for a shell outside, in the workspace
	flags   []string          // of run
	runs    []networkRun
}

// A networkRun is one run of a program.
type networkRun struct {
	line    string // its words
	stdin   string
	says    string   // what is in its output
	reaches []string // each HOST:PORT that it reached, which is what the receipt says and no more

	// It fails soon, and reaches nothing.
	fails   bool
	refused string // what the receipt says was refused: HOST[:PORT] REASON
}

// What is in a policy of nearly all of these, with what it is for.
const (
	runtimeRule = "read minimal-runtime" // the program, its loader and libraries, and what resolves names
	webPlain    = "tcp web.example.com:80"
	webTLS      = "tcp web.example.com:443"
	strange     = "https://other.example.com/hello" // whose server would answer, and no policy lists it
	notAllowed  = "other.example.com not-allowed"
)

var web = []string{"web.example.com:443"}

var networkJobs = []networkJob{
	{
		name: "curl", needs: []string{"curl"},
		policy: []string{
			runtimeRule,
			"write workspace", // reads the CA and what it uploads, writes what it downloads
			webPlain, webTLS,
		},
		project: map[string]string{"ca.pem": "@ca", "up": "@big"},
		runs: []networkRun{
			{line: "curl -sSf http://web.example.com/hello", says: "hello by HTTP/1.1\n", reaches: []string{"web.example.com:80"}},
			{line: "curl -sSf --http1.1 --cacert ca.pem https://web.example.com/hello", says: "hello by HTTP/1.1\n", reaches: web},
			{line: "curl -sSf --http2 --cacert ca.pem -w version=%{http_version} https://web.example.com/hello", says: "hello by HTTP/2.0\nversion=2", reaches: web},
			{line: "curl -sSf --cacert ca.pem -o down https://web.example.com/big", reaches: web},
			{line: "curl -sSf --cacert ca.pem -T up https://web.example.com/sum", says: "$BIGSUM", reaches: web},
			{line: "curl -sSf --cacert ca.pem " + strange, says: "curl: (6)", fails: true, refused: notAllowed},
			{line: "curl -sSf --cacert ca.pem https://web.example.com:444/hello", says: "curl: (7)", fails: true},
			{line: "curl -sSf --noproxy * http://127.0.0.1:$PLAIN/hello", says: "curl: (7)", fails: true}, // where the server is outside
			{line: "curl -sSf --noproxy * https://192.0.2.1/hello", says: "curl: (7)", fails: true},
			{line: "curl -sSf --noproxy * https://[2001:db8::1]/hello", says: "curl: (7)", fails: true},
			{
				line: "curl -sSf --cacert ca.pem --connect-to other.example.com:443:web.example.com:443 " + strange,
				says: "curl: (35)", fails: true, refused: "web.example.com:443 server-name",
			},
		},
	},
	{
		name: "git over https", needs: []string{"git"},
		policy: []string{
			runtimeRule,
			"write workspace", // the CA, what is cloned
			"read /usr",       // git-core, libcurl
			"tcp git.example.com:443",
		},
		project: map[string]string{"ca.pem": "@ca"},
		flags:   []string{"--env", "GIT_SSL_CAINFO=$WORKSPACE/ca.pem", "--env", "GIT_TERMINAL_PROMPT=0", "--env", "HOME=$WORKSPACE"},
		runs: []networkRun{
			{line: "git clone -q https://git.example.com/$REPOSITORY copy", reaches: []string{"git.example.com:443"}},
			{line: "git -C copy -c user.name=n -c user.email=e commit -q --allow-empty -m second"},
			{line: "git -C copy push -q origin HEAD:pushed", reaches: []string{"git.example.com:443"}},
			{line: "git ls-remote https://git.example.com/$REPOSITORY", says: "refs/heads/pushed\n", reaches: []string{"git.example.com:443"}},
			{line: "git clone -q https://other.example.com/$REPOSITORY c", says: "Could not resolve host: other.example.com", fails: true, refused: notAllowed},
			{line: "git clone -q https://git.example.com:444/$REPOSITORY c", says: "Failed to connect to git.example.com port 444", fails: true},
		},
	},
	{
		name: "git over ssh", needs: []string{"git", "ssh", "ssh-keygen", "sshd"},
		policy: []string{
			runtimeRule,
			"write workspace",  // the keys, what is cloned
			"read /usr",        // git-core, ssh
			"read /bin",        // the shell that GIT_SSH_COMMAND is for
			"read /etc/passwd", // without it ssh says that there is no such user
			"tcp git.example.com:22",
		},
		project: map[string]string{"key": "@key", "known_hosts": "@known_hosts"},
		before:  "chmod 600 key",
		flags: []string{
			"--env", "GIT_SSH_COMMAND=ssh -F none -i $WORKSPACE/key -o IdentitiesOnly=yes -o BatchMode=yes -o UserKnownHostsFile=$WORKSPACE/known_hosts", "--env", "HOME=$WORKSPACE",
		},
		runs: []networkRun{
			{line: "git clone -q ssh://$USER@git.example.com/$REPOSITORIES/$REPOSITORY copy", reaches: []string{"git.example.com:22"}},
			{line: "git -C copy -c user.name=n -c user.email=e commit -q --allow-empty -m second"},
			{line: "git -C copy push -q origin HEAD:pushed", reaches: []string{"git.example.com:22"}},
			{line: "git clone -q ssh://$USER@other.example.com/$REPOSITORIES/$REPOSITORY c", says: "Could not resolve hostname other.example.com", fails: true, refused: notAllowed},
			{line: "git clone -q ssh://$USER@git.example.com:23/$REPOSITORIES/$REPOSITORY c", says: "Connection refused", fails: true},
		},
	},
	{
		name: "npm install", needs: []string{"node", "npm"},
		policy: []string{
			runtimeRule,
			"write workspace", // the CA, node_modules, its cache
			"read /usr",       // npm
			"tcp registry.example.com:443",
		},
		project: map[string]string{"ca.pem": "@ca", "package.json": `{"name": "hello", "version": "1.0.0"}`, ".npmrc": "registry=https://registry.example.com/\ncafile=ca.pem\naudit=false\nfund=false\nupdate-notifier=false\n"},
		flags:   []string{"--env", "HOME=$WORKSPACE"},
		runs: []networkRun{
			{line: "npm install greet", says: "added 1 package", reaches: []string{"registry.example.com:443"}},
			{line: "node -p require('greet')", says: "greeted\n"},
			// Without --fetch-retries it asks again after ten seconds and after a minute, as always.
			{line: "npm install --fetch-retries 0 --registry https://other.example.com/ other", says: "getaddrinfo E", fails: true, refused: notAllowed},
		},
	},
	{
		name: "pip install", needs: []string{"python3", "pip"},
		policy: []string{
			runtimeRule,
			"write workspace", // the CA, what is installed and unpacked
			"read $PYTHON",    // the standard library and pip
			"write temp",      // where pip unpacks
			"tcp pypi.example.com:443",
		},
		project: map[string]string{"ca.pem": "@ca"},
		flags:   []string{"--env", "PYTHONPATH=$WORKSPACE/site", "--env", "HOME=$WORKSPACE"},
		runs: []networkRun{
			{
				line: "python3 -m pip install --no-cache-dir --disable-pip-version-check --target site --cert ca.pem --index-url https://pypi.example.com/simple/ greet",
				says: "Successfully installed greet-1.0.0", reaches: []string{"pypi.example.com:443"},
			},
			{line: "python3 -m greet", says: "greeted\n"},
			{
				line: "python3 -m pip install --no-cache-dir --disable-pip-version-check --retries 0 --target c --cert ca.pem --index-url https://other.example.com/simple/ other",
				says: "No matching distribution found for other", fails: true, refused: notAllowed,
			},
		},
	},
	{
		name: "go mod download and build", needs: []string{"go"},
		policy: []string{
			runtimeRule,
			"write workspace", // the CA, go.sum, caches, what is built
			"read $GOROOT",
			"write temp", // where it links
			"tcp proxy.example.com:443",
		},
		project: map[string]string{
			"ca.pem": "@ca", "go.mod": "module example.com/hello\n\ngo 1.21\n\nrequire example.com/greet v1.0.0\n",
			"main.go": "package main\n\nimport \"example.com/greet\"\n\nfunc main() { println(greet.Word) }\n",
		},
		before: "cp -r $BUILT/cache .", // with package runtime, which takes ten seconds
		flags: []string{
			"--env", "HOME=/tmp", "--env", "GOPROXY=https://proxy.example.com", "--env", "GOSUMDB=off", "--env", "GONOSUMDB=*", "--env", "GOFLAGS=-mod=mod -modcacherw",
			"--env", "GOTOOLCHAIN=local", "--env", "CGO_ENABLED=0", "--env", "GOMODCACHE=$WORKSPACE/mod", "--env", "GOCACHE=$WORKSPACE/cache", "--env", "SSL_CERT_FILE=$WORKSPACE/ca.pem",
		},
		runs: []networkRun{
			{line: "go mod download example.com/greet", reaches: []string{"proxy.example.com:443"}},
			{line: "go build -o hello ."},
			{line: "./hello", says: "greeted\n"},
			{line: "go mod download example.com/more@v1.0.0", says: "404 Not Found", reaches: []string{"proxy.example.com:443"}, fails: true},
			{line: "env GOPROXY=https://other.example.com go mod download example.com/other@v1.0.0", says: "dial tcp: lookup other.example.com", fails: true, refused: notAllowed},
			{line: "env GOPROXY=https://proxy.example.com:444 go mod download example.com/other@v1.0.0", says: "connection refused", fails: true},
		},
	},
	{
		name: "python", needs: []string{"python3"},
		policy: []string{
			runtimeRule,
			"read workspace", // the CA, the program
			"read $PYTHON",   // the standard library
			webPlain, webTLS,
		},
		project: map[string]string{"ca.pem": "@ca", "client.py": "@client.py"},
		flags:   []string{"--env", "SSL_CERT_FILE=$WORKSPACE/ca.pem"},
		runs: []networkRun{
			{line: "python3 client.py urllib https://web.example.com/hello", says: "urllib hello by HTTP/1.1\n", reaches: web},
			{line: "python3 client.py http.client https://web.example.com/hello", says: "http.client hello by HTTP/1.1\n", reaches: web},
			{line: "python3 client.py asyncio https://web.example.com/hello", says: "asyncio hello by HTTP/1.0\n", reaches: web},
			{line: "python3 client.py asyncio http://web.example.com/hello", says: "asyncio hello by HTTP/1.0\n", reaches: []string{"web.example.com:80"}},
			{line: "python3 client.py urllib " + strange, says: "socket.gaierror", fails: true, refused: notAllowed},
			{line: "python3 client.py asyncio https://web.example.com:444/hello", says: "ConnectionRefusedError", fails: true},
		},
	},
	{
		name: "node", needs: []string{"node"},
		policy: []string{
			runtimeRule,
			"read workspace", // the CA
			webPlain, webTLS,
		},
		project: map[string]string{"ca.pem": "@ca", "client.mjs": "@client.mjs"},
		flags:   []string{"--env", "NODE_EXTRA_CA_CERTS=$WORKSPACE/ca.pem"},
		runs: []networkRun{
			{line: "node client.mjs fetch https://web.example.com/hello", says: "fetch hello by HTTP/1.1\n", reaches: web},
			{line: "node client.mjs https https://web.example.com/hello", says: "https hello by HTTP/1.1\n", reaches: web},
			{line: "node client.mjs net http://web.example.com/hello", says: "net hello by HTTP/1.0\n", reaches: []string{"web.example.com:80"}},
			{line: "node client.mjs fetch " + strange, says: "getaddrinfo E", fails: true, refused: notAllowed},
			{line: "node client.mjs https https://web.example.com:444/hello", says: "ECONNREFUSED", fails: true},
		},
	},
	{
		name: "java", needs: []string{"java", "javac"},
		policy: []string{
			runtimeRule,
			"read workspace", // the CA, the program
			"read $JAVA",     // its modules and libraries, where that is not in /usr
			"read /usr",      // libstdc++ of libjvm
			"read $JAVACONF", // where a distribution has conf/security, without which there is no TLS
			webPlain, webTLS,
		},
		project: map[string]string{"ca.pem": "@ca", "Main.java": "@Main.java"},
		before:  "javac Main.java",
		runs: []networkRun{
			{line: "java -XX:TieredStopAtLevel=1 -cp . Main http://web.example.com/hello", says: "java hello by HTTP/1.1\n", reaches: []string{"web.example.com:80"}},
			{line: "java -XX:TieredStopAtLevel=1 -cp . Main https://web.example.com/hello ca.pem", says: "java hello by HTTP/2.0\n", reaches: web},
			{line: "java -XX:TieredStopAtLevel=1 -cp . Main " + strange + " ca.pem", says: "java.net.ConnectException", fails: true, refused: notAllowed},
			{line: "java -XX:TieredStopAtLevel=1 -cp . Main http://web.example.com:81/hello", says: "java.net.ConnectException", fails: true},
		},
	},
	{
		name: "go", needs: []string{"go", "gcc"},
		policy: []string{
			runtimeRule,
			"read workspace", // the CA
			webPlain, webTLS,
		},
		project: map[string]string{"ca.pem": "@ca"},
		flags:   []string{"--env", "SSL_CERT_FILE=$WORKSPACE/ca.pem"},
		before:  "cp $BUILT/pure $BUILT/cgo .",
		runs: []networkRun{
			{line: "./pure http://web.example.com/hello", says: "go hello by HTTP/1.1\n", reaches: []string{"web.example.com:80"}},
			{line: "./pure https://web.example.com/hello", says: "go hello by HTTP/2.0\n", reaches: web},
			{line: "env GODEBUG=netdns=cgo ./cgo https://web.example.com/hello", says: "go hello by HTTP/2.0\n", reaches: web},
			{line: "./pure " + strange, says: "lookup other.example.com", fails: true, refused: notAllowed},
			{line: "env GODEBUG=netdns=cgo ./cgo " + strange, says: "lookup other.example.com", fails: true, refused: notAllowed},
			{line: "./pure https://web.example.com:444/hello", says: "connection refused", fails: true},
		},
	},
	{
		name: "perl", needs: []string{"perl"},
		policy: []string{
			runtimeRule,
			"read workspace", // the program
			"read /usr",      // IO::Socket::INET
			webPlain,
		},
		project: map[string]string{"client.pl": "@client.pl"},
		runs: []networkRun{
			{line: "perl client.pl web.example.com 80 /hello", says: "perl hello by HTTP/1.0\n", reaches: []string{"web.example.com:80"}},
			{line: "perl client.pl other.example.com 80 /hello", says: "other.example.com: ", fails: true, refused: notAllowed},
			{line: "perl client.pl web.example.com 81 /hello", says: "Connection refused", fails: true},
		},
	},
	{
		name: "openssl", needs: []string{"openssl"},
		policy: []string{
			runtimeRule,
			"read workspace", // the CA
			webTLS,
		},
		project: map[string]string{"ca.pem": "@ca"},
		runs: []networkRun{
			{
				line:  "openssl s_client -quiet -connect web.example.com:443 -servername web.example.com -verify_return_error -verify_hostname web.example.com -CAfile ca.pem",
				stdin: "GET /hello HTTP/1.0\r\nHost: web.example.com\r\n\r\n", says: "hello by HTTP/1.0\n", reaches: web,
			},
			{line: "openssl s_client -connect other.example.com:443", says: "BIO_lookup_ex", fails: true, refused: notAllowed},
			{line: "openssl s_client -connect web.example.com:443 -servername other.example.com", says: "errno=104", fails: true, refused: "web.example.com:443 server-name"},
		},
	},
	{
		name: "nc", needs: []string{"nc"},
		policy: []string{runtimeRule, "tcp echo.example.com:7"},
		runs: []networkRun{
			{line: "nc -N echo.example.com 7", stdin: "said\n", says: "said\n", reaches: []string{"echo.example.com:7"}},
			{line: "nc -N other.example.com 7", fails: true, refused: notAllowed},
			{line: "nc -zv echo.example.com 8", says: "Connection refused", fails: true},
		},
	},
	{
		name: "redis-cli", needs: []string{"redis-server", "redis-cli"},
		policy: []string{runtimeRule, "tcp redis.example.com:6379"},
		runs: []networkRun{
			{line: "redis-cli -h redis.example.com", stdin: "SET $REPOSITORY kept\nGET $REPOSITORY\n", says: "OK\nkept\n", reaches: []string{"redis.example.com:6379"}},
			{line: "redis-cli -h other.example.com PING", says: "Could not connect to Redis at other.example.com:6379", fails: true, refused: notAllowed},
			{line: "redis-cli -h redis.example.com -p 6380 PING", says: "Connection refused", fails: true},
		},
	},
	{
		name: "getent", needs: []string{"getent"},
		policy: []string{runtimeRule, "tcp web.example.com:80", "tcp git.example.com:22"},
		runs: []networkRun{
			{line: "getent hosts web.example.com", says: "198.18."},
			{line: "getent ahosts git.example.com", says: "198.18."},
			{line: "getent hosts other.example.com", fails: true, refused: notAllowed},
		},
	},
	{
		name: "busybox", needs: []string{"busybox"},
		policy: []string{
			runtimeRule,
			webPlain,
		},
		runs: []networkRun{
			{line: "busybox wget -q -O - http://web.example.com/hello", says: "hello by HTTP/1.1\n", reaches: []string{"web.example.com:80"}},
			{line: "busybox nslookup web.example.com", says: "198.18."},
			{line: "busybox wget -q -O - http://other.example.com/hello", says: "bad address", fails: true, refused: notAllowed},
			{line: "busybox wget -q -O - http://web.example.com:81/hello", says: "Connection refused", fails: true},
		},
	},
	{
		name: "musl", needs: []string{"musl-gcc"},
		policy: []string{
			runtimeRule,
			webPlain,
		},
		project: map[string]string{"client.c": "@client.c"},
		before:  "musl-gcc -static -O1 -o client client.c",
		runs: []networkRun{
			{line: "./client web.example.com 80 /hello", says: "c hello by HTTP/1.0\n", reaches: []string{"web.example.com:80"}},
			{line: "./client other.example.com 80 /hello", says: "other.example.com: ", fails: true, refused: notAllowed},
			{line: "./client web.example.com 81 /hello", says: "Connection refused", fails: true},
		},
	},
}

// TestNetworkTools does every job as this user and as nobody.
func TestNetworkTools(t *testing.T) {
	s := newNetworkServers(t)
	for _, j := range networkJobs {
		eachUser(t, j.name, func(t *testing.T, maelys []string) { j.run(t, s, maelys) })
	}
}

// eachUser does a test twice, with what maelys is started by.
func eachUser(t *testing.T, name string, test func(t *testing.T, maelys []string)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		test(t, []string{"maelys"})
	})
	if ok, err := condition("ordinary"); err == nil && ok && os.Geteuid() == 0 {
		t.Run(name+" as nobody", func(t *testing.T) {
			t.Parallel()
			test(t, []string{"ordinary", "maelys"})
		})
	}
}

func (j networkJob) run(t *testing.T, s *networkServers, maelys []string) {
	for _, name := range j.needs {
		path, err := s.program(name)
		if err != nil {
			unavailable(t, fmt.Sprintf("there is no %s (%v)", name, err))
		}
		if path, err = filepath.EvalSymlinks(path); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(path, "/root/") && maelys[0] == "ordinary" {
			return // tools of root's own are nobody's
		}
	}
	base := t.TempDir()
	openToAll(t, base)
	workspace := base + "/workspace"
	if err := os.Mkdir(workspace, 0o755); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{"WORKSPACE": workspace}
	words := func(text string) string {
		return os.Expand(text, func(name string) string {
			if values[name] == "" {
				values[name] = s.value(t, name)
			}
			return values[name]
		})
	}
	for name, text := range j.project {
		if fixture, ok := strings.CutPrefix(text, "@"); ok {
			text = s.fixture(t, fixture)
		}
		if err := os.WriteFile(filepath.Join(workspace, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if j.before != "" {
		outside(t, workspace, "sh", "-c", words(j.before))
	}
	c := confined{maelys: maelys, dir: workspace, policy: base + "/policy.json", receipt: base + "/receipt.json"}
	c.flags = []string{"run", "-p", c.policy, "-w", workspace, "--receipt", c.receipt}
	var policy []string
	for _, line := range j.policy {
		if rule, at, _ := strings.Cut(line, " "); rule == "tcp" {
			_, port, _ := strings.Cut(at, ":")
			c.flags = append(c.flags, "--pin", at+"="+s.at[port])
		}
		policy = append(policy, words(line))
	}
	writePolicy(t, c.policy, policy)
	for _, flag := range j.flags {
		c.flags = append(c.flags, words(flag))
	}
	if maelys[0] == "ordinary" {
		outside(t, base, "chown", "-R", fmt.Sprint(nobody), ".")
	}
	for _, r := range j.runs {
		line := strings.Fields(r.line)
		if path, err := s.program(line[0]); err == nil {
			line[0] = path // the one of j.needs
		}
		for i, word := range line {
			line[i] = words(word)
		}
		r.says = words(r.says)
		c.check(t, r, line, words(r.stdin))
	}
	if down, err := os.ReadFile(workspace + "/down"); err == nil && !bytes.Equal(down, bigFile()) {
		t.Errorf("what was downloaded is not what is there: %d bytes", len(down))
	}
}

// confined is how programs are run under one policy.
type confined struct {
	maelys  []string
	dir     string
	policy  string
	flags   []string
	receipt string
}

// A networkReceipt is what is looked at in a receipt.
type networkReceipt struct {
	Connections []struct {
		Host     string
		Port     int
		Sent     int64 `json:"sentBytes"`
		Received int64 `json:"receivedBytes"`
		Reason   string
	}
	Refusals []struct {
		Host, Reason string
		Port         int
	}
	Untold int `json:"untoldEvents"`
}

// once runs a program and returns all that it said, and how long it took.
func (c confined) once(t *testing.T, line []string, stdin string) (said string, r networkReceipt, took time.Duration, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	words := slices.Concat(c.maelys, c.flags, []string{"--"}, line)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir, cmd.Stdin = c.dir, strings.NewReader(stdin)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	took = time.Since(began)
	text, failed := os.ReadFile(c.receipt)
	if failed == nil {
		failed = json.Unmarshal(text, &r)
	}
	if failed != nil {
		t.Fatalf("%q: no receipt: %v\n%s", line, failed, out)
	}
	// What maelys says can be in the middle of what the program says.
	told := regexp.MustCompile(regexp.QuoteMeta(c.policy) + ": refused .*\n  hint: .*\n")
	return told.ReplaceAllString(string(out), ""), r, took, err
}

// soon is how long a program may take to see that it cannot reach something, with its own start:
// that of Java takes two seconds beside other tests. Who waits for an answer that never
// comes waits five at least.
const soon = 4 * time.Second

// check runs a program, which says what it should and reaches what it should.
func (c confined) check(t *testing.T, r networkRun, line []string, stdin string) {
	t.Helper()
	said, receipt, took, err := c.once(t, line, stdin)
	for again := 0; r.fails && took > soon && again < 3; again++ { // other tests have the processors too
		said, receipt, took, err = c.once(t, line, stdin)
	}
	t.Logf("%.2f s: %q", took.Seconds(), line)
	if (err != nil) != r.fails || !strings.Contains(said, r.says) {
		t.Errorf("%q: %v, want an error: %t; want it to say %q, it said:\n%s", line, err, r.fails, r.says, said)
	}
	if r.fails && took > soon {
		t.Errorf("%q: it fails after %v", line, took)
	}
	reached, refused := map[string]bool{}, []string{}
	for _, one := range receipt.Connections {
		at := fmt.Sprintf("%s:%d", one.Host, one.Port)
		reached[at] = reached[at] || one.Sent > 0 && one.Received > 0
		if one.Reason != "" {
			t.Errorf("%q: the connection to %s failed: %s", line, at, one.Reason)
		}
	}
	for _, one := range receipt.Refusals {
		at := one.Host
		if one.Port != 0 {
			at = fmt.Sprintf("%s:%d", at, one.Port)
		}
		refused = append(refused, at+" "+one.Reason)
	}
	for at, answered := range reached {
		if !answered {
			t.Errorf("%q: nothing was said to %s, or nothing came back", line, at)
		}
	}
	if got := slices.Sorted(maps.Keys(reached)); !slices.Equal(got, r.reaches) {
		t.Errorf("%q: the receipt has connections to %q, want %q", line, got, r.reaches)
	}
	if got := strings.Join(refused, ", "); got != r.refused || receipt.Untold != 0 {
		t.Errorf("%q: the receipt has the refusals %q and %d untold, want %q", line, got, receipt.Untold, r.refused)
	}
}

// writePolicy writes a manifest.
func writePolicy(t *testing.T, name string, lines []string) {
	t.Helper()
	rules, allow := []any{}, []any{}
	for _, line := range lines {
		access, at, _ := strings.Cut(line, " ")
		path := map[string]string{"root": at}
		switch {
		case access == "tcp":
			host, text, _ := strings.Cut(at, ":")
			port, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			allow = append(allow, map[string]any{"protocol": "tcp", "host": host, "port": port})
			continue
		case at == "minimal-runtime":
			path = map[string]string{"special": at}
		case strings.HasPrefix(at, "/"):
			path = map[string]string{"absolute": at}
		}
		rules = append(rules, map[string]any{"access": access, "path": path})
	}
	text, err := json.Marshal(map[string]any{
		"formatVersion": 2, "filesystem": map[string]any{"default": "deny", "rules": rules},
		"network": map[string]any{"mode": "mediated", "allow": allow}, "process": map[string]any{"treeConfinement": "required"},
	})
	if err == nil {
		err = os.WriteFile(name, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// outside runs a program that is not confined, and returns what it said.
func outside(t *testing.T, dir string, line ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", line, err, out)
	}
	return strings.TrimSpace(string(out))
}

// networkServers are the servers of all jobs, on loopback.
type networkServers struct {
	dir       string            // of repositories, keys and programs
	at        map[string]string // where each port of a destination is served
	ca        string
	python    string
	builtOnce func() error // programs in Go, and a cache

	mu           sync.Mutex
	repositories int
}

func newNetworkServers(t *testing.T) *networkServers {
	t.Helper()
	readyToConfine(t)
	s := &networkServers{dir: t.TempDir(), at: map[string]string{}, python: "python3"}
	openToAll(t, s.dir)
	for _, path := range []string{"/usr/bin/python3", "/usr/local/bin/python3", "python3"} { // the first that everybody can start
		out, err := exec.CommandContext(t.Context(), path, "-c", "import pip, sys; print(sys.executable)").Output()
		if err == nil {
			s.python = strings.TrimSpace(string(out))
			break
		}
	}
	s.builtOnce = sync.OnceValue(func() error {
		var failed error
		for _, line := range []string{
			"CGO_ENABLED=0 go build -o $0/pure testdata/network/client.go", "CGO_ENABLED=1 go build -o $0/cgo testdata/network/client.go",
			"CGO_ENABLED=0 GOFLAGS= GOCACHE=$0/cache go build runtime",
		} {
			if out, err := exec.CommandContext(t.Context(), "sh", "-c", line, s.dir).CombinedOutput(); err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %w\n%s", line, err, out))
			}
		}
		return failed
	})
	certificates, handler := s.certify(t), s.handler(t)
	plain := &http.Server{Handler: handler}
	secure := &http.Server{Handler: handler, TLSConfig: &tls.Config{Certificates: certificates}, ErrorLog: log.New(io.Discard, "", 0)} // of those that are refused
	toPlain, toSecure := s.listen(t, "80"), s.listen(t, "443")
	t.Cleanup(func() { _ = errors.Join(plain.Close(), secure.Close()) })
	go func() { _ = plain.Serve(toPlain) }()
	go func() { _ = secure.ServeTLS(toSecure, "", "") }()
	serve(s.listen(t, "7"), func(c *net.TCPConn) { _, _ = io.Copy(c, c) })
	s.serveSSH(t)
	s.serveRedis(t)
	return s
}

// listen listens on loopback for a port of destinations.
func (s *networkServers) listen(t *testing.T, port string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s.at[port] = l.Addr().String()
	return l
}

// serve answers each connection until the listener is closed.
func serve(l net.Listener, answer func(*net.TCPConn)) {
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				answer(c.(*net.TCPConn))
			}()
		}
	}()
}

// certify makes an authority, and a certificate for all names.
func (s *networkServers) certify(t *testing.T) []tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "leaf"}, NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		DNSNames: []string{"*.example.com"}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	root, err := x509.CreateCertificate(rand.Reader, authority, authority, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.CreateCertificate(rand.Reader, leaf, authority, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	s.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root}))
	return []tls.Certificate{{Certificate: [][]byte{made}, PrivateKey: key}}
}

// handler serves every site, each by its name. That of a name that no policy has fails the test.
func (s *networkServers) handler(t *testing.T) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("web.example.com/hello", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello by %s\n", r.Proto) })
	mux.HandleFunc("web.example.com/big", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bigFile()) })
	mux.HandleFunc("web.example.com/sum", func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		_, _ = io.Copy(sum, r.Body)
		fmt.Fprintf(w, "%x\n", sum.Sum(nil))
	})
	file := func(name string, data []byte) {
		mux.HandleFunc(name, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) })
	}
	tarball := packedNPM(t)
	digest := sha512.Sum512(tarball)
	file("registry.example.com/greet/-/greet-1.0.0.tgz", tarball)
	file("registry.example.com/greet", fmt.Appendf(nil, `{"name": "greet", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {"name": "greet", "version": "1.0.0",
"dist": {"tarball": "https://registry.example.com/greet/-/greet-1.0.0.tgz", "integrity": "sha512-%s"}}}}`, base64.StdEncoding.EncodeToString(digest[:])))
	file("pypi.example.com/simple/greet/", []byte(`<!DOCTYPE html><a href="/files/greet-1.0.0-py3-none-any.whl">greet-1.0.0-py3-none-any.whl</a>`))
	file("pypi.example.com/files/greet-1.0.0-py3-none-any.whl", zipped(t, map[string]string{
		"greet/__init__.py": "", "greet/__main__.py": "print('greeted')\n", "greet-1.0.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: greet\nVersion: 1.0.0\n",
		"greet-1.0.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n", "greet-1.0.0.dist-info/RECORD": "",
	}))
	const mod = "module example.com/greet\n"
	file("proxy.example.com/example.com/greet/@v/v1.0.0.info", []byte(`{"Version": "v1.0.0"}`))
	file("proxy.example.com/example.com/greet/@v/v1.0.0.mod", []byte(mod))
	file("proxy.example.com/example.com/greet/@v/v1.0.0.zip", zipped(t, map[string]string{
		"example.com/greet@v1.0.0/go.mod": mod, "example.com/greet@v1.0.0/greet.go": "package greet\n\nconst Word = \"greeted\"\n",
	}))
	mux.HandleFunc("proxy.example.com/", http.NotFound)
	mux.HandleFunc("pypi.example.com/", http.NotFound)
	git, err := exec.LookPath("git")
	if err == nil {
		mux.Handle("git.example.com/", &cgi.Handler{
			Path: git, Args: []string{"http-backend"}, Dir: s.dir, Stderr: io.Discard,
			Env: []string{"GIT_PROJECT_ROOT=" + s.dir + "/git", "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=n", "HOME=" + s.dir},
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s%s has been reached", r.Method, r.Host, r.URL)
		http.NotFound(w, r)
	})
	return mux
}

// bigFile returns 20 MB in which no two pages are the same.
var bigFile = sync.OnceValue(func() []byte {
	const size = 20_000_000
	data := make([]byte, 0, size+sha256.Size)
	for i := 0; len(data) < size; i++ {
		sum := sha256.Sum256(strconv.AppendInt(nil, int64(i), 10))
		data = append(data, sum[:]...)
	}
	return data[:size]
})

func packedNPM(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	var err error
	for name, text := range map[string]string{"package/package.json": `{"name": "greet", "version": "1.0.0"}`, "package/index.js": "module.exports = 'greeted'\n"} {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}))
		_, failed := io.WriteString(w, text)
		err = errors.Join(err, failed)
	}
	if err = errors.Join(err, w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zipped(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range files {
		w, err := z.Create(name)
		if err == nil {
			_, err = io.WriteString(w, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// serveSSH makes keys, and starts an sshd for each connection. One of root's has a /run of its
// own: it needs a directory there, and leaves things there.
func (s *networkServers) serveSSH(t *testing.T) {
	t.Helper()
	l := s.listen(t, "22")
	sshd, err := s.program("sshd")
	if _, noKeys := exec.LookPath("ssh-keygen"); err != nil || noKeys != nil {
		return
	}
	for _, name := range []string{"key", "host"} {
		outside(t, s.dir, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", name)
	}
	config := fmt.Sprintf("HostKey %[1]s/host\nAuthorizedKeysFile %[1]s/key.pub\nStrictModes no\nUsePAM yes\nPasswordAuthentication no\nPermitRootLogin yes\nPidFile none\nLogLevel ERROR\n", s.dir)
	if err := os.WriteFile(s.dir+"/sshd_config", []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	line := []string{sshd, "-i", "-e", "-f", s.dir + "/sshd_config"}
	if os.Geteuid() == 0 {
		line = append([]string{"unshare", "-m", "sh", "-c", `mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec "$0" "$@"`}, line...)
	}
	var all sync.WaitGroup
	t.Cleanup(all.Wait) // they are killed with the context
	serve(l, func(c *net.TCPConn) {
		all.Add(1)
		defer all.Done()
		file, err := c.File()
		if err != nil {
			return
		}
		defer file.Close()
		var errs bytes.Buffer
		cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = file, file, &errs
		if err := cmd.Run(); err != nil && errs.Len() > 0 && t.Context().Err() == nil { // it ends with 255 in any case
			t.Logf("sshd: %v\n%s", err, &errs)
		}
	})
}

// serveRedis starts a Redis at a socket, and passes connections on to it.
func (s *networkServers) serveRedis(t *testing.T) {
	t.Helper()
	l := s.listen(t, "6379")
	if _, err := exec.LookPath("redis-server"); err != nil {
		return
	}
	cmd := exec.CommandContext(t.Context(), "redis-server", "--port", "0", "--unixsocket", s.dir+"/redis", "--save", "", "--dir", s.dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // it is killed with the context
	serve(l, func(c *net.TCPConn) {
		var to net.Conn
		var err error
		for range 100 { // it may have only just been started
			if to, err = net.Dial("unix", s.dir+"/redis"); err == nil {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		if err != nil {
			return
		}
		defer to.Close()
		go func() {
			_, _ = io.Copy(to, c)
			_ = to.(*net.UnixConn).CloseWrite()
		}()
		_, _ = io.Copy(c, to)
	})
}

// program returns where a program is.
func (s *networkServers) program(name string) (string, error) {
	switch name {
	case "python3":
		name = s.python
	case "pip":
		return s.python, exec.Command(s.python, "-c", "import pip").Run()
	case "sshd":
		if path, err := exec.LookPath("/usr/sbin/sshd"); err == nil {
			return path, nil
		}
	}
	return exec.LookPath(name)
}

// fixture returns what a file of a workspace is to have.
func (s *networkServers) fixture(t *testing.T, name string) string {
	t.Helper()
	path := "testdata/network/" + name
	switch name {
	case "ca":
		return s.ca
	case "big":
		return string(bigFile())
	case "key", "known_hosts":
		path = s.dir + "/key"
		if name == "known_hosts" {
			path = s.dir + "/host.pub"
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if name == "known_hosts" {
		return "git.example.com " + string(text)
	}
	return string(text)
}

// value returns what a word that begins with a dollar sign stands for.
func (s *networkServers) value(t *testing.T, name string) string {
	t.Helper()
	switch name {
	case "BIGSUM":
		return fmt.Sprintf("%x", sha256.Sum256(bigFile()))
	case "PLAIN":
		_, port, _ := strings.Cut(s.at["80"], ":")
		return port
	case "USER":
		u, err := user.Current()
		if err != nil {
			t.Fatal(err)
		}
		return u.Username
	case "REPOSITORIES":
		return s.dir + "/git"
	case "REPOSITORY":
		return s.repository(t)
	case "PYTHON":
		return outside(t, ".", s.python, "-c", "import sys; print(sys.base_prefix)")
	case "GOROOT":
		return outside(t, ".", "go", "env", "GOROOT")
	case "JAVA", "JAVACONF":
		java, err := exec.LookPath("java")
		if err == nil {
			java, err = filepath.EvalSymlinks(java)
		}
		home := filepath.Dir(filepath.Dir(java))
		if err == nil && name == "JAVACONF" {
			home, err = filepath.EvalSymlinks(home + "/conf/security/java.security")
			home = filepath.Dir(home)
		}
		if err != nil {
			t.Fatal(err)
		}
		return home
	case "BUILT":
		if err := s.builtOnce(); err != nil {
			t.Fatal(err)
		}
		return s.dir
	}
	t.Fatalf("nothing is known of $%s", name)
	return ""
}

// repository makes a repository with one commit and returns its name.
func (s *networkServers) repository(t *testing.T) string {
	t.Helper()
	s.mu.Lock()
	s.repositories++
	name := fmt.Sprintf("r%d.git", s.repositories)
	s.mu.Unlock()
	outside(t, s.dir, "sh", "-c", `set -e; r=git/$0; git init -q --bare $r; git -C $r config http.receivepack true
git -C $r update-ref HEAD $(git -C $r -c user.name=n -c user.email=e commit-tree -m first $(git -C $r hash-object -t tree -w /dev/null))`, name)
	return name
}

// TestNetworkRegistries installs a package from each registry that this machine is set up for
// and reaches. Where they are is asked of the tools, and written nowhere.
func TestNetworkRegistries(t *testing.T) {
	readyToConfine(t)
	eachUser(t, "go", func(t *testing.T, maelys []string) {
		first, _, _ := strings.Cut(strings.ReplaceAll(toolSays(t, "go", "env", "GOPROXY"), "|", ","), ",")
		// What comes is what go.sum of this repository says.
		sums, err := os.ReadFile("../../go.sum")
		if err != nil {
			t.Fatal(err)
		}
		const module = "golang.org/x/sys"
		version := toolSays(t, "go", "list", "-m", "-f", "{{.Version}}", module)
		registryJob{
			url: first,
			project: map[string]string{
				"go.mod": "module example.com/hello\n\ngo 1.21\n\nrequire " + module + " " + version + "\n", "go.sum": string(sums),
			},
			env:  []string{"GOPROXY=" + first, "GOSUMDB=off", "GOFLAGS=-mod=mod -modcacherw", "GOTOOLCHAIN=local", "GOMODCACHE=$WORKSPACE/mod", "GOCACHE=$WORKSPACE/cache", "HOME=$WORKSPACE"},
			rule: "read " + toolSays(t, "go", "env", "GOROOT"),
			line: []string{"go", "mod", "download", module},
			made: "mod/" + module + "@" + version + "/cpu/cpu.go",
		}.run(t, maelys)
	})
	eachUser(t, "npm", func(t *testing.T, maelys []string) {
		registry := toolSays(t, "npm", "config", "get", "registry")
		registryJob{
			url:     registry,
			project: map[string]string{"package.json": `{"name": "hello", "version": "1.0.0"}`},
			env:     []string{"npm_config_registry=" + registry, "npm_config_fetch_retries=0", "npm_config_audit=false", "npm_config_fund=false", "npm_config_update_notifier=false", "HOME=$WORKSPACE"},
			rule:    "read /usr",
			line:    []string{"npm", "install", "is-number@7.0.0"},
			made:    "node_modules/is-number/index.js",
		}.run(t, maelys)
	})
}

// toolSays asks a tool how it is set up.
func toolSays(t *testing.T, line ...string) string {
	t.Helper()
	if _, err := exec.LookPath(line[0]); err != nil {
		unavailable(t, "there is no "+line[0])
	}
	out, err := exec.CommandContext(t.Context(), line[0], line[1:]...).Output()
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return strings.TrimSpace(string(out))
}

// A registryJob installs something from a registry of this machine, outside first.
type registryJob struct {
	url     string
	project map[string]string
	env     []string // of the tool
	rule    string   // where the tool is
	line    []string
	made    string // what is in the workspace then
}

func (j registryJob) run(t *testing.T, maelys []string) {
	at, err := url.Parse(j.url)
	if err != nil || at.Scheme != "https" && at.Scheme != "http" || at.Hostname() == "" {
		// Also where nothing may be skipped, as below: it can be set up to have none.
		t.Skip("this machine has no registry that is reached by HTTP")
	}
	port := at.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[at.Scheme]
	}
	destination := at.Hostname() + ":" + port
	base := t.TempDir()
	openToAll(t, base)
	policy := []string{runtimeRule, "write workspace", j.rule, "read /etc/ssl/certs", "tcp " + destination}
	for _, name := range []string{"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"} { // of a network with an authority of its own
		if file := os.Getenv(name); file != "" {
			policy = append(policy, "read "+file)
			j.env = append(j.env, name+"="+file)
		}
	}
	writePolicy(t, base+"/policy.json", policy)
	prepare := func(name string) (workspace string, env []string) {
		workspace = filepath.Join(base, name)
		if err := os.Mkdir(workspace, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range j.project {
			if err := os.WriteFile(filepath.Join(workspace, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, one := range j.env {
			env = append(env, strings.ReplaceAll(one, "$WORKSPACE", workspace))
		}
		return workspace, env
	}
	elsewhere, env := prepare("elsewhere")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, j.line[0], j.line[1:]...)
	cmd.Dir, cmd.Env = elsewhere, append(os.Environ(), env...)
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		// Also where nothing may be skipped: whether there is a registry is not a matter of this machine alone.
		t.Skipf("%q does not reach its registry from here, without a sandbox: %v", j.line, err)
	}
	workspace, env := prepare("workspace")
	c := confined{maelys: maelys, dir: workspace, policy: base + "/policy.json", receipt: base + "/receipt.json"}
	c.flags = []string{"run", "-p", c.policy, "-w", workspace, "--receipt", c.receipt, "--allow-private", at.Hostname()} // mirrors often are
	for _, one := range env {
		c.flags = append(c.flags, "--env", one)
	}
	if maelys[0] == "ordinary" {
		outside(t, base, "chown", "-R", fmt.Sprint(nobody), ".")
	}
	c.check(t, networkRun{reaches: []string{destination}}, j.line, "")
	if _, err := os.Stat(filepath.Join(workspace, j.made)); err != nil {
		t.Errorf("it is not there: %v", err)
	}
}
