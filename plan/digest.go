package plan

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"maelys.dev/maelys/mir"
)

// Digest names what p permits on its host: the SHA-256 of its decisions' digests, of
// the host context, and of every rule, omission, link and directory as it was
// resolved. Device and inode numbers are left out, so that the same layout on another
// machine, or tomorrow, has the same digest.
func (p *Plan) Digest() mir.Digest {
	d := digester{sha256.New()}
	d.text("maelys plan 1")
	d.count(len(p.policies))
	for _, policy := range p.policies {
		digest := policy.Digest()
		d.text(string(digest[:]))
	}
	limits := p.limits().Digest()
	d.text(string(limits[:]))
	d.text(p.at.workspace)
	d.text(p.at.temp)
	d.flag(p.at.tempPrivate)
	d.text(p.at.executable)
	d.count(len(p.at.runtimeRoots))
	for _, root := range p.at.runtimeRoots {
		d.text(root)
	}
	d.count(len(p.at.allowPrivate))
	for _, host := range p.at.allowPrivate {
		d.text(host.String())
	}
	d.count(len(p.at.pins))
	for _, pin := range p.at.pins {
		d.text(pin.Destination.String())
		d.text(pin.Address.String())
	}
	d.count(len(p.rules))
	for _, r := range p.rules {
		d.count(int(r.Access))
		d.text(r.Path)
		d.count(int(r.Scope))
		d.count(r.Policy)
		d.count(int(r.Identity.Type))
		d.flag(r.Private)
	}
	d.count(len(p.fresh))
	for _, path := range p.fresh {
		d.text(path)
	}
	d.count(len(p.omitted))
	for _, o := range p.omitted {
		d.count(o.Rule)
		d.text(o.Path)
	}
	d.count(len(p.links))
	for _, l := range p.links {
		d.text(l.Path)
		d.text(l.Target)
	}
	d.count(len(p.directories))
	for _, path := range p.directories {
		d.text(path)
	}
	return mir.Digest(d.Sum(nil))
}

// A digester hashes fields so that no two sequences of them hash the same bytes.
type digester struct{ hash.Hash }

func (d digester) count(n int) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	d.Write(b[:]) // a hash takes everything
}

func (d digester) text(s string) {
	d.count(len(s))
	d.Write([]byte(s))
}

func (d digester) flag(b bool) {
	n := 0
	if b {
		n = 1
	}
	d.count(n)
}
