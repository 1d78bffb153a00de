package warden

import "maelys.dev/maelys/mediator"

// A traffic notes what a mediator tells of.
type traffic struct {
	receipt *Traffic
	report  func(mediator.Event)
	refused map[mediator.Cause]int // the index of each refusal
}

// add notes one event. Each connection to what may be reached is noted; what is refused can
// be asked for much more often, and is counted.
func (t *traffic) add(e mediator.Event) {
	r := t.receipt
	cause := e.Cause()
	switch i, known := t.refused[cause]; {
	case known:
		r.Refusals[i].Count++
	case !e.Reason.Refused() && len(r.Connections) < MaxConnections:
		r.Connections = append(r.Connections, e)
	case e.Reason.Refused() && len(r.Refusals) < MaxRefusals:
		if t.refused == nil {
			t.refused = map[mediator.Cause]int{}
		}
		t.refused[cause] = len(r.Refusals)
		r.Refusals = append(r.Refusals, Refusal{e, 1})
	default:
		r.Untold++
	}
	if t.report != nil {
		t.report(e)
	}
}
