package manifest_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"maelys.dev/maelys/manifest"
)

// fill returns a manifest of about 1 MiB: before, then as many of the pieces that
// each makes as there is room for, with commas between, then after.
func fill(before string, each func(i int) string, after string) string {
	var b strings.Builder
	b.WriteString(before)
	for i := 0; ; i++ {
		piece := each(i)
		if b.Len()+len(piece)+len(after)+1 > manifest.MaxSize {
			break
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(piece)
	}
	return b.String() + after
}

// long returns as many of s as fit into n bytes.
func long(n int, s string) string { return strings.Repeat(s, n/len(s)) }

// TestMemory bounds what a hostile manifest can make the package allocate, by a
// multiple of its size.
func TestMemory(t *testing.T) {
	const (
		rules  = `{"formatVersion":2,"network":{"mode":"none"},"process":{"treeConfinement":"required"},"filesystem":{"default":"deny","rules":[`
		allow  = `{"formatVersion":2,"filesystem":{"default":"deny","rules":[]},"process":{"treeConfinement":"required"},"network":{"mode":"mediated","allow":[`
		end    = "]}}"
		most   = manifest.MaxSize - 1000
		factor = 20
	)
	same := func(s string) func(int) string { return func(int) string { return s } }
	numbered := func(format string) func(int) string { return func(i int) string { return fmt.Sprintf(format, i) } }
	text := func(value string) string {
		return rules + `{"access":"read","path":{"root":"temp","relative":` + value + `}}` + end
	}

	largest := 0.0
	for _, tt := range []struct{ name, src string }{
		{"numbers as rules", fill(rules, same("1"), end)},
		{"empty objects as rules", fill(rules, same("{}"), end)},
		{"empty arrays as rules", fill(rules, same("[]"), end)},
		{"the shortest rule many times", fill(rules, same(`{"access":"deny","path":{"root":"temp"}}`), end)},
		{"the host many times", fill(rules, same(`{"access":"read","path":{"absolute":"/"}}`), end)},
		{"the host many times below a write of it", fill(rules+`{"access":"write","path":{"absolute":"/"}},`, same(`{"access":"read","path":{"absolute":"/"}}`), end)},
		{"the host many times below a deny of it", fill(rules+`{"access":"deny","path":{"absolute":"/"}},`, same(`{"access":"read","path":{"absolute":"/"}}`), end)},
		{"devices many times", fill(rules, same(`{"access":"read","path":{"absolute":"/dev/x"}}`), end)},
		{"different rules, too many", fill(rules, numbered(`{"access":"read","path":{"root":"temp","relative":"%d"}}`), end)},
		{"rules in a chain", fill(rules, func(i int) string {
			return fmt.Sprintf(`{"access":"deny","path":{"absolute":"/%s"},"missing":"skip"}`, long(2*(i%100), "a/"))
		}, end)},
		{"4096 denies that may be left out", fill(rules+`{"access":"write","path":{"root":"temp"}},`, func(i int) string {
			return fmt.Sprintf(`{"access":"deny","path":{"root":"temp","relative":"%d"},"missing":"skip"}`, 4095-i%4095)
		}, end)},
		{"long paths", fill(rules, func(i int) string {
			return fmt.Sprintf(`{"access":"read","path":{"root":"temp","relative":"%04d%s"}}`, i, long(4092, "x"))
		}, end)},
		{"bad paths", fill(rules, same(`{"access":"read","path":{"root":"temp","relative":".."}}`), end)},
		{"conflicting paths", fill(rules, same(`{"access":"","path":{"root":"","relative":"..","absolute":"","special":""}}`), end)},
		{"rules with strangers", fill(rules, same(`{"acess":1,"pth":1,"scop":1,"misng":1}`), end)},
		{"destinations", fill(allow, numbered(`{"protocol":"tcp","host":"%d.a","port":1}`), end)},
		{"one destination many times", fill(allow, same(`{"protocol":"tcp","host":"a","port":1}`), end)},
		{"bad hosts", fill(allow, same(`{"protocol":"tcp","host":"*","port":1}`), end)},
		{"bad hosts and ports and words", fill(allow, same(`{"protocol":"","host":"1.1","port":1e1}`), end)},
		{"long bad hosts", fill(allow, same(`{"protocol":"tcp","host":"`+long(500, "_.")+`","port":0}`), end)},
		{"a host of dots", allow + `{"protocol":"tcp","host":"` + long(most, ".") + `","port":1}` + end},
		{"a host of escapes", allow + `{"protocol":"tcp","host":"` + long(most, `\u002e`) + `","port":1}` + end},
		{"a host of letters", allow + `{"protocol":"tcp","host":"` + long(most, "é") + `","port":1}` + end},

		{"strangers", fill("{", numbered(`"%d":1`), "}")},
		{"members below a stranger", fill(`{"x":{`, numbered(`"%d":1`), "}}")},
		{"escaped members below a stranger", fill(`{"x":{`, numbered(`"\u0061%d":1`), "}}")},
		{"empty objects below a stranger", fill(`{"x":[`, same("{}"), "]}")},
		{"small objects below a stranger", fill(`{"x":[`, same(`{"":0}`), "]}")},
		{"objects of nine members below a stranger", fill(`{"x":[`, same(`{"":0,"1":0,"2":0,"3":0,"4":0,"5":0,"6":0,"7":0,"8":0}`), "]}")},
		{"objects in objects below a stranger", fill(`{"x":[`, same(nest(28, `{"":`, "0", "}")), "]}")},
		{"numbers below a stranger", fill(`{"x":[`, same("1"), "]}")},
		{"one duplicate many times", fill(`{"x":{`, same(`"":1`), "}}")},
		{"one member many times", fill("{", same(`"process":1`), "}")},
		{"many duplicates below a long name", fill(`{"`+long(400000, "n")+`":{`, same(`"":1`), "}}")},
		{"many duplicates below a name of slashes", fill(`{"`+long(400000, "/~")+`":{`, same(`"":1`), "}}")},
		{"many duplicates below many long names", fill(nest(30, `{"`+long(16000, "n")+`":`, "{", ""), same(`"":1`), strings.Repeat("}", 31))},
		{"two long names", `{"` + long(most/2, "n") + `":1,"` + long(most/2, "m") + `":2}`},
		{"one long name twice", `{"` + long(most/2, "n") + `":1,"` + long(most/2, "n") + `":2}`},
		{"a long name of escapes", `{"` + long(most, `\u006e`) + `":1}`},
		{"a long name of slashes", `{"` + long(most, "/") + `":1}`},
		{"a long name of surrogate pairs", `{"` + long(most, `\ud83d\ude00`) + `":1}`},

		{"opening brackets", long(most, "[")},
		{"opening braces", long(most, `{"":`)},
		{"opening brackets below a stranger", `{"x":` + long(most, "[")},
		{"brackets where a name must be", "{" + long(most, "[")},
		{"a long number", `{"formatVersion":` + long(most, "9") + "}"},
		{"a long fraction", allow + `{"protocol":"tcp","host":"a","port":0.` + long(most, "0") + `1}` + end},
		{"a long string", text(`"` + long(most, "x") + `"`)},
		{"a long string of escapes", text(`"` + long(most, `\u0000`) + `"`)},
		{"a long string of control characters", text(`"` + long(most, `\n`) + `"`)},
		{"a long string that does not end", text(`"` + long(most, "x"))},
		{"a long word", `{"formatVersion":2,"network":{"mode":"` + long(most, "é") + `"}}`},
		{"a long schema", `{"$schema":"` + long(most, `\u0000`) + `"}`},
		{"white space", long(most, " \n")},
		{"white space and no manifest", long(most, " \n") + "{}"},
		{"commas", long(most, ",")},
		{"invalid UTF-8", long(most, "\xff")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src := []byte(tt.src)
			if len(src) < manifest.MaxSize/2 || len(src) > manifest.MaxSize {
				t.Fatalf("the manifest has %d bytes, want about 1 MiB", len(src))
			}
			for _, f := range []struct {
				name string
				call func()
			}{
				{"Compile", func() { _, _ = manifest.Compile(src) }},
				{"Lint", func() { _, _ = manifest.Lint(src) }},
			} {
				bytes := allocated(f.call)
				multiple := float64(bytes) / float64(len(src))
				largest = max(largest, multiple)
				t.Logf("%s allocates %.1f times the manifest", f.name, multiple)
				if limit := factor*len(src) + 1<<20; bytes > uint64(limit) {
					t.Errorf("%s allocates %d bytes for %d, %.0f times as much; want %d times at most", f.name, bytes, len(src), multiple, factor)
				}
			}
		})
	}
	t.Logf("%.1f times at the most", largest)
}

// allocated returns how many bytes f allocates, freed or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
