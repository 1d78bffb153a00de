package mir

// An Extent is which paths a [Region] or a [Hole] takes in, seen from its path.
type Extent uint8

// The extents.
const (
	ExtentExact   Extent = 1 // the path alone
	ExtentTree    Extent = 2 // the path and everything beneath it
	ExtentBeneath Extent = 3 // everything beneath the path, not the path
)

func (e Extent) String() string { return name("exact tree beneath", uint8(e)) }

// contains reports whether the extent at path takes in q.
func (e Extent) contains(path, q Path) bool {
	switch e {
	case ExtentExact:
		return path == q
	case ExtentTree:
		return path.Contains(q)
	case ExtentBeneath:
		return path != q && path.Contains(q)
	}
	return false
}

// A Region is a set of paths: those in its extent, less its holes.
type Region struct {
	Path   Path
	Extent Extent
	Holes  []Hole
}

// A Hole is a part cut out of a [Region].
type Hole struct {
	Path   Path
	Extent Extent
}

// Contains reports whether path is in the region.
func (r Region) Contains(path Path) bool {
	if !r.Extent.contains(r.Path, path) {
		return false
	}
	for _, hole := range r.Holes {
		if hole.Extent.contains(hole.Path, path) {
			return false
		}
	}
	return true
}

// A step is how the permission of a cell differs between two sets of rules. The zero
// step is a cell that is of no interest.
type step struct{ before, after Permission }

// A steppedRegion is a region of one step.
type steppedRegion struct {
	Region
	step
}

// regionsOf joins neighbouring cells of one step to regions, as large as can be,
// and returns those of interest. Each target adds at most two regions and one hole.
func regionsOf(targets []target, label func(b, a cell) step) []steppedRegion {
	const none = -1
	var regions []steppedRegion
	open := func(path Path, extent Extent, s step) int {
		if s == (step{}) {
			return none
		}
		regions = append(regions, steppedRegion{Region{Path: path, Extent: extent}, s})
		return len(regions) - 1
	}
	type inside struct {
		region int // that the cell beneath a target belongs to
		step   step
	}
	beneathOf := make([]inside, len(targets))
	for i := range targets {
		t := &targets[i]
		outer := inside{region: none}
		if t.parent >= 0 {
			outer = beneathOf[t.parent]
		}
		b, a := &t.of[0], &t.of[1]
		at, beneath := label(b.at(), a.at()), label(b.beneath(), a.beneath())
		inner := outer
		hole := Extent(0)
		switch {
		case at == outer.step && beneath == outer.step:
		case at == beneath:
			hole = ExtentTree
			inner = inside{open(t.path, ExtentTree, at), at}
		case beneath == outer.step:
			hole = ExtentExact
			open(t.path, ExtentExact, at)
		case at == outer.step:
			hole = ExtentBeneath
			inner = inside{open(t.path, ExtentBeneath, beneath), beneath}
		default:
			hole = ExtentTree
			open(t.path, ExtentExact, at)
			inner = inside{open(t.path, ExtentBeneath, beneath), beneath}
		}
		if hole != 0 && outer.region != none {
			r := &regions[outer.region]
			r.Holes = append(r.Holes, Hole{t.path, hole})
		}
		beneathOf[i] = inner
	}
	return regions
}

// witness returns one path of the region; name is one that no target has.
func (r Region) witness(name string) Path {
	if r.Extent == ExtentBeneath {
		return r.Path.join(name)
	}
	return r.Path
}
