package manifest

import (
	"fmt"
	"slices"

	"maelys.dev/maelys/mir"
)

// A Source is a manifest that compiled, and where its parts stand. It is for those who
// point into a manifest; who wants the policy alone calls [Compile].
type Source struct {
	text         []byte
	policy       *mir.Policy
	rules        [][]int // of each rule of the policy: the rules of the manifest that became it
	destinations []int   // of each destination of the policy: that of the manifest
	read         *source
}

// Parse is [Compile] for those who point into the manifest afterwards. It retains src,
// which must not be changed.
func Parse(src []byte) (*Source, error) {
	read := read(src)
	if len(read.errors) > 0 {
		return nil, read.errors
	}
	s := &Source{text: src, policy: read.policy, read: read}
	target := func(r mir.Rule) mir.Rule { r.Access = 0; return r } // what rules must have in common to collapse
	of := map[mir.Rule][]int{}
	for i, r := range read.rules {
		of[target(r.Rule)] = append(of[target(r.Rule)], i)
	}
	for _, r := range s.policy.Rules() {
		all := of[target(r)]
		slices.SortStableFunc(all, func(a, b int) int { return int(read.rules[b].Access) - int(read.rules[a].Access) })
		s.rules = append(s.rules, all)
	}
	first := map[mir.Destination]int{}
	for i, d := range slices.Backward(read.destinations) {
		first[d.Destination] = i
	}
	for _, d := range s.policy.Destinations() {
		s.destinations = append(s.destinations, first[d])
	}
	return s, nil
}

// Policy returns the policy that the manifest says.
func (s *Source) Policy() *mir.Policy { return s.policy }

// Rule returns where rule i of [mir.Policy.Rules] stands: the rules of the manifest
// that say it as it is, in source order, and then weaker ones that it has taken in.
// It panics when i is out of range.
func (s *Source) Rule(i int) []Place {
	places := make([]Place, len(s.rules[i]))
	for n, r := range s.rules[i] {
		places[n] = s.place(fmt.Sprintf("/filesystem/rules/%d", r), s.read.rules[r].offset)
	}
	return places
}

// Destination returns where destination i of [mir.Policy.Destinations] stands first.
// It panics when i is out of range.
func (s *Source) Destination(i int) Place {
	d := s.destinations[i]
	return s.place(fmt.Sprintf("/network/allow/%d", d), s.read.destinations[d].offset)
}

// Mode returns where the network mode stands.
func (s *Source) Mode() Place { return s.place("/network/mode", s.read.mode.offset) }

func (s *Source) place(pointer string, offset int) Place {
	p := Place{Pointer: pointer, Offset: offset}
	locate(s.text, []*Place{&p})
	return p
}
