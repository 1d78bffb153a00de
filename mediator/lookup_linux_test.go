package mediator_test

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"maelys.dev/maelys/mediator"
)

// TestLookup resolves what the host has in its files, and localhost whatever they say.
func TestLookup(t *testing.T) {
	found, err := mediator.Lookup(t.Context(), "localhost")
	if fmt.Sprint(found) != "[127.0.0.1 ::1]" || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	file, err := os.Open("/etc/hosts")
	if err == nil {
		defer file.Close()
	}
	tried := 0
	for lines := bufio.NewScanner(file); lines.Scan(); { // of no file there are none
		text, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(text)
		if len(fields) < 2 || strings.ToLower(fields[1]) == "localhost" {
			continue
		}
		want, err := netip.ParseAddr(fields[0])
		if err != nil {
			continue
		}
		tried++
		found, err := mediator.Lookup(t.Context(), fields[1])
		if err != nil {
			t.Errorf("%s: %v", fields[1], err)
		}
		has := false
		for _, a := range found {
			has = has || a.Unmap() == want
		}
		if !has {
			t.Errorf("%s: %v, want %s", fields[1], found, want)
		}
	}
	t.Logf("%d names", tried)
}

// TestLookupAsksForTheName has a resolver of the host that knows only names in the domain that is
// searched: what the policy says is another name.
func TestLookupAsksForTheName(t *testing.T) {
	needsInside(t)
	server, err := net.ListenPacket("udp4", "127.0.0.53:53")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	var mu sync.Mutex
	var asked []string
	go func() {
		query := make([]byte, 1024)
		for {
			n, from, err := server.ReadFrom(query)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(query[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			m.Response, m.Additionals = true, nil
			m.RCode = dnsmessage.RCodeNameError
			known := q.Name.String() == "known.example.com." || strings.HasSuffix(q.Name.String(), ".corp.example.com.")
			if known {
				m.RCode = dnsmessage.RCodeSuccess
			}
			if known && q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: [4]byte{203, 0, 113, 7}}}}
			}
			mu.Lock()
			asked = append(asked, q.Name.String())
			mu.Unlock()
			if reply, err := m.Pack(); err == nil {
				_, _ = server.WriteTo(reply, from)
			}
		}
	}()
	for _, name := range []string{"a.example.com", "single"} {
		if found, err := mediator.Lookup(t.Context(), name); err == nil {
			t.Errorf("%s is at %v", name, found)
		}
	}
	if found, err := mediator.Lookup(t.Context(), "known.example.com"); err != nil || len(found) != 1 || found[0].Unmap().String() != "203.0.113.7" {
		t.Errorf("%v, %v", found, err)
	}
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(asked)
	if got := fmt.Sprint(slices.Compact(asked)); got != "[a.example.com. known.example.com. single.]" {
		t.Errorf("asked for %s", got)
	}
}
