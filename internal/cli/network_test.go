package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"maelys.dev/maelys/mediator"
)

// A slowWriter is standard error that nobody reads for now.
type slowWriter struct {
	begun chan struct{} // is told when something is to be written
	goOn  chan struct{} // is closed when it can be
	text  bytes.Buffer
}

func (w *slowWriter) Write(b []byte) (int, error) {
	select {
	case w.begun <- struct{}{}:
	default:
	}
	<-w.goOn
	return w.text.Write(b)
}

func newTeller(stderr *slowWriter) *teller {
	return &teller{
		running: &running{app: &app{stderr: stderr}, in: &input{name: "policy.json"}},
		said:    map[mediator.Cause]bool{},
	}
}

// TestTellerDoesNotWait tells of more destinations than are said while nobody reads standard error:
// connections do not wait for that, and all is said in the end.
func TestTellerDoesNotWait(t *testing.T) {
	stderr := &slowWriter{begun: make(chan struct{}, 1), goOn: make(chan struct{})}
	told := newTeller(stderr)
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		for range 2 {
			for i := range 2 * maxTold {
				told.tell(mediator.Event{Host: fmt.Sprintf("host-%d.example.com", i), Port: 443, Reason: mediator.NotAllowed, Detail: "the policy allows no such destination"})
			}
			told.tell(mediator.Event{Host: "allowed.example.com", Port: 443})
		}
	}()
	select {
	case <-reported:
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for who reads standard error")
	}
	<-stderr.begun
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		told.end()
	}()
	select {
	case <-ended:
		t.Fatal("it has ended before anything was written")
	case <-time.After(50 * time.Millisecond):
	}
	close(stderr.goOn)
	<-ended
	text := stderr.text.String()
	for i := range maxTold {
		line := fmt.Sprintf("refused host-%d.example.com:443: the policy allows no such destination", i)
		at := strings.Index(text, line)
		if at < 0 {
			t.Fatalf("%q is not said, or not in order", line)
		}
		text = text[at+len(line):]
	}
	if strings.Contains(text, "refused") || !strings.HasSuffix(text, "\nmaelys: more destinations could not be reached; --receipt names them\n") {
		t.Errorf("after all of it, it says %q", text)
	}
}

// TestTellerSaysNothing tells of nothing that is worth it.
func TestTellerSaysNothing(t *testing.T) {
	stderr := &slowWriter{goOn: make(chan struct{})} // it would wait for ever
	told := newTeller(stderr)
	told.tell(mediator.Event{Host: "allowed.example.com", Port: 443})
	told.tell(mediator.Event{Host: "left.example.com", Port: 443, Reason: mediator.Abandoned})
	told.end()
}
