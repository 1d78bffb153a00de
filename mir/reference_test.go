package mir_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"maelys.dev/maelys/mir"
)

// reencodes is the definition of canonical: decode leniently, rebuild the model,
// encode it again, compare. What it shares with the scanner, the normal form of
// paths and hostnames, has definitions of its own in TestNormalForm and
// TestHostnameForm.
func reencodes(doc []byte) bool {
	spec, ok := parse(doc)
	if !ok {
		return false
	}
	p, err := mir.Build(spec)
	return err == nil && string(p.Bytes()) == string(doc)
}

// parse reads the records of doc wherever the bytes hold them.
func parse(doc []byte) (spec mir.Spec, ok bool) {
	if len(doc) < 20 || string(doc[:8]) != "MMIR\x00\x02\x00\x00" || doc[14] != 0 || doc[15] != 0 {
		return spec, false
	}
	spec.Mode = mir.Mode(doc[12])
	switch doc[13] {
	case 0:
		spec.TreeConfinement = mir.Disabled
	case 1:
		spec.TreeConfinement = mir.Required
	default:
		return spec, false
	}
	rules, destinations := binary.BigEndian.Uint32(doc[8:]), binary.BigEndian.Uint32(doc[16:])
	rest := doc[20:]
	take := func(n uint32) []byte {
		if uint64(len(rest)) < uint64(n) {
			ok = false
			return make([]byte, min(n, 64))
		}
		b := rest[:n]
		rest = rest[n:]
		return b
	}
	ok = true
	for range rules {
		p := take(12)
		text := take(binary.BigEndian.Uint32(p[8:]))
		path, err := mir.NewPath(mir.Root(p[2]), string(text))
		if !ok || err != nil || p[0] != 1 || p[5] != 0 || p[6] != 0 || p[7] != 0 {
			return spec, false
		}
		spec.Rules = append(spec.Rules, mir.Rule{Access: mir.Access(p[1]), Path: path, Scope: mir.Scope(p[3]), Missing: mir.Missing(p[4])})
	}
	for range destinations {
		p := take(8)
		text := take(binary.BigEndian.Uint32(p[4:]))
		host, err := mir.NewHostname(string(text))
		if !ok || err != nil || p[0] != 2 || p[1] != 1 {
			return spec, false
		}
		spec.Destinations = append(spec.Destinations, mir.Destination{Host: host, Port: binary.BigEndian.Uint16(p[2:])})
	}
	return spec, ok && len(rest) == 0
}

// agree fails the test where Verify, Decode and the definition differ.
func agree(t *testing.T, doc []byte) {
	t.Helper()
	digest, err := mir.Verify(doc)
	if want := reencodes(doc); (err == nil) != want {
		t.Fatalf("Verify(%x) = %v, but re-encoding says canonical: %v", doc, err, want)
	}
	p, decodeErr := mir.Decode(doc)
	if (p != nil) != (err == nil) || (decodeErr == nil) != (err == nil) {
		t.Fatalf("Decode(%x) = %v, %v, but Verify says %v", doc, p, decodeErr, err)
	}
	if err == nil {
		if string(p.Bytes()) != string(doc) || p.Digest() != digest {
			t.Fatalf("Decode(%x) holds other bytes or another digest", doc)
		}
		return
	}
	var fault *mir.DecodeError
	if !errors.As(err, &fault) || !slices.Contains(codes, fault.Code) || fault.Offset < 0 || fault.Offset > len(doc) {
		t.Fatalf("Verify(%x): %#v, want a DecodeError with a code and an offset", doc, err)
	}
}

// rounds is how often a property is tried. With -short, which is meant for slow
// machines such as a WebAssembly interpreter, it is tried less often.
func rounds(n int) int {
	if testing.Short() {
		return n / 20
	}
	return n
}

var codes = []mir.Code{
	mir.CodeTruncated, mir.CodeBadMagic, mir.CodeUnsupportedVersion, mir.CodeReservedNotZero, mir.CodeInvalidValue,
	mir.CodeLimitExceeded, mir.CodeInvalidPath, mir.CodeInvalidHost, mir.CodeInconsistent, mir.CodeNotCanonical, mir.CodeTrailingBytes,
}

// TestVerifyIsReencoding changes valid documents a little, many times.
func TestVerifyIsReencoding(t *testing.T) {
	var seeds [][]byte
	for _, folder := range []string{"mir-valid", "manifest-valid", "mir-invalid"} {
		for _, doc := range readAll(t, folder) {
			agree(t, doc)
			seeds = append(seeds, doc)
		}
	}
	slices.SortFunc(seeds, slices.Compare) // a map gave them in random order
	random := rand.New(rand.NewPCG(1, 2))
	accepted := 0
	interesting := []byte{0, 1, 2, 3, 4, '/', '.', '-', 'a', 'z', '0', 0x7f, 0x80, 0xc3, 0xff}
	for range rounds(200_000) {
		doc := slices.Clone(seeds[random.IntN(len(seeds))])
		for range 1 + random.IntN(3) {
			if len(doc) == 0 {
				break
			}
			at := random.IntN(len(doc))
			switch random.IntN(4) {
			case 0:
				doc[at] = interesting[random.IntN(len(interesting))]
			case 1:
				doc[at] ^= 1 << random.IntN(8)
			case 2: // grow a string and its length by one
				doc = slices.Insert(doc, at, interesting[random.IntN(len(interesting))])
				if at >= 20 {
					doc[max(20, at-random.IntN(12))]++
				}
			case 3:
				doc = slices.Delete(doc, at, at+1)
			}
		}
		agree(t, doc)
		if _, err := mir.Verify(doc); err == nil {
			accepted++
		}
	}
	if accepted < rounds(1000) {
		t.Errorf("only %d mutated documents were canonical: the test does not see both sides", accepted)
	}
}

// TestRandomPoliciesVerify builds policies at random and verifies their bytes.
func TestRandomPoliciesVerify(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range rounds(5000) {
		p := randomPolicy(t, random, 12)
		agree(t, p.Bytes())
		if _, err := mir.Verify(p.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNormalForm holds NewPath, and with it the word-wise scan, to a definition
// by segments, on every path over a small alphabet and on long random ones.
func TestNormalForm(t *testing.T) {
	check := func(root mir.Root, text string) {
		t.Helper()
		want, ok := slowNormal(root, text)
		p, err := mir.NewPath(root, text)
		if (err == nil) != ok || ok && p.Text() != want {
			t.Fatalf("NewPath(%v, %q) = %q, %v; want %q, %v", root, text, p.Text(), err, want, ok)
		}
	}
	var all func(prefix string, depth int)
	all = func(prefix string, depth int) {
		check(mir.RootWorkspace, prefix)
		check(mir.RootHost, prefix)
		if depth > 0 {
			for _, c := range []string{"/", ".", "a", "\x00", "é", "\xff"} {
				all(prefix+c, depth-1)
			}
		}
	}
	all("", 6)
	random := rand.New(rand.NewPCG(5, 6))
	pieces := []string{"/", "/", ".", "..", "a", "bc", "-", "def", "é", "漢", "\x7f", "\x01"}
	for range rounds(300_000) {
		var b strings.Builder
		for range random.IntN(40) {
			piece := pieces[random.IntN(len(pieces))]
			if len(piece) == 2 && piece == ".." && random.IntN(4) > 0 {
				piece = "..x" // else nearly every long path is refused
			}
			b.WriteString(piece)
		}
		text := b.String()
		switch random.IntN(20) {
		case 0:
			at := random.IntN(len(text) + 1)
			text = text[:at] + "\x00" + text[at:]
		case 1:
			at := random.IntN(len(text) + 1)
			text = text[:at] + "\xed\xa0\x80" + text[at:]
		}
		check(mir.RootTemp, text)
		check(mir.RootHost, text)
		if normal, ok := slowNormal(mir.RootHost, "/"+text); ok {
			check(mir.RootHost, normal)
		}
	}
}

func slowNormal(root mir.Root, text string) (normal string, ok bool) {
	if strings.ContainsRune(text, 0) || strings.ToValidUTF8(text, "") != text || strings.HasPrefix(text, "/") != (root == mir.RootHost) {
		return "", false
	}
	var kept []string
	for segment := range strings.SplitSeq(text, "/") {
		switch segment {
		case "..":
			return "", false
		case "", ".":
		default:
			kept = append(kept, segment)
		}
	}
	normal = strings.Join(kept, "/")
	if root == mir.RootHost {
		normal = "/" + normal
	}
	return normal, true
}

func FuzzVerify(f *testing.F) {
	for _, folder := range []string{"mir-valid", "manifest-valid", "mir-invalid"} {
		for _, doc := range readAll(f, folder) {
			f.Add(doc)
		}
	}
	f.Fuzz(func(t *testing.T, doc []byte) { agree(t, doc) })
}
