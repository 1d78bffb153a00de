//go:build amd64 || arm64

package mediator

const (
	// minRead and maxRead are how many bytes are read at once, at most: what is passed on in
	// large pieces costs the kernel less, and what is not taken has to be kept.
	minRead = 64 << 10
	maxRead = 2 << 20

	// maxHeld is how many bytes a loop keeps of what was read in large pieces.
	maxHeld = 16 << 20

	// maxSpare buffers are kept for the next.
	maxSpare = 2
)

// buffers are what a loop reads into. One is shared by all its connections: only what a side
// does not take is kept, and where that becomes too much less is read at once.
type buffers struct {
	shared []byte
	spare  [][]byte
	held   int // bytes in buffers that sides have
}

// buffer returns the shared one.
func (b *buffers) buffer() []byte {
	if n := len(b.spare); b.shared == nil && n > 0 {
		b.shared, b.spare = b.spare[n-1], b.spare[:n-1]
	}
	if b.shared == nil {
		b.shared = make([]byte, maxRead)
	}
	return b.shared
}

// mayRead returns how many bytes a side may have read at once.
func (b *buffers) mayRead() int {
	if b.held >= maxHeld {
		return minRead
	}
	return maxRead
}

// hold keeps what s has said and the other side has not taken, which is the rest of what was
// kept, or of the shared buffer, or nobody else's.
func (b *buffers) hold(s *side, left []byte) {
	end := func(x []byte) *byte { return &x[:cap(x)][cap(x)-1] }
	if s.held == nil && b.shared != nil && end(left) == end(b.shared) {
		if len(left) <= minRead {
			left = append([]byte(nil), left...)
		} else {
			s.held, b.shared = b.shared, nil
			b.held += len(s.held)
		}
	}
	s.left = left
}

// release takes back what is kept of s.
func (b *buffers) release(s *side) {
	s.left = nil
	if s.held == nil {
		return
	}
	b.held -= len(s.held)
	if len(b.spare) < maxSpare {
		b.spare = append(b.spare, s.held)
	}
	s.held = nil
}
