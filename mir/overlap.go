package mir

// An Overlap is a region on which two sets of rules both permit something.
type Overlap struct {
	Region        Region
	First, Second Permission // neither is [PermitNone]
	Witness       Path       // one path of the region
}

// OverlapRules returns the regions on which both sets permit something. It is exact:
// a path is in a region with what each set permits there, and in one region at most.
// The time is N log N in the number of rules. The order is that of the paths.
func OverlapRules(first, second RuleSet) []Overlap {
	targets := targetsOf(first, second)
	if len(targets) == 0 {
		return nil
	}
	label := func(a, b cell) step {
		if min(a.present, b.present) == PermitNone {
			return step{}
		}
		return step{a.present, b.present}
	}
	var overlaps []Overlap
	name := freshName(targets)
	for _, r := range regionsOf(targets, label) {
		overlaps = append(overlaps, Overlap{r.Region, r.before, r.after, r.witness(name)})
	}
	return overlaps
}
