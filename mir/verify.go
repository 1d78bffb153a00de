package mir

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// A Digest is the identity of a decision: the SHA-256 of its canonical bytes.
type Digest [sha256.Size]byte

// String returns d in lower-case hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Verify reports whether b is canonical MIR, and returns its digest.
//
// It accepts exactly the bytes that some [Policy] encodes to, as [Decode] does,
// but in one pass that builds no policy and allocates nothing. It does not
// retain b. Every failure is a *[DecodeError] that names the first fault: fields in
// byte order, and the order of a record after its own fields.
func Verify(b []byte) (Digest, error) {
	if err := scan(viewOf(b)); err != nil {
		return Digest{}, err
	}
	return sha256.Sum256(b), nil
}

// scan is the canonicality check. It returns nil exactly when doc is canonical.
//
// It must agree with "decode leniently, rebuild, re-encode, compare" on every
// input; TestVerifyIsReencoding and FuzzVerify hold it to that.
func scan(doc string) *DecodeError {
	if err := scanHeader(doc); err != nil {
		return err
	}
	off, err := scanRules(doc, headerSize)
	if err != nil {
		return err
	}
	off, err = scanDestinations(doc, off)
	if err != nil {
		return err
	}
	if off != len(doc) {
		return faultf(CodeTrailingBytes, off, "expected the end of the document at %d bytes, found %d", off, len(doc))
	}
	return nil
}

func scanHeader(doc string) *DecodeError {
	if start := doc[:min(len(doc), len(magic))]; !strings.HasPrefix(magic, start) {
		return faultf(CodeBadMagic, 0, "expected a document that begins with %.80q, found %.80q", magic, start)
	}
	if len(doc) > MaxDocument {
		return faultf(CodeLimitExceeded, MaxDocument, "expected at most %d bytes, found more", MaxDocument)
	}
	if err := scanFields(doc, 0, headerFields[:]); err != nil {
		return err
	}
	mode, n := Mode(doc[atMode]), uint32At(doc, atDestinationCount)
	if mode == ModeMediated && n == 0 {
		return faultf(CodeInconsistent, atDestinationCount, "expected a network record, since the network mode is mediated, found none")
	}
	if mode != ModeMediated && n != 0 {
		return faultf(CodeInconsistent, atDestinationCount, "expected no network record, since the network mode is %s, found %d", mode, n)
	}
	return nil
}

// scanRules checks the filesystem records, which begin at off, and returns where
// they end.
func scanRules(doc string, off int) (end int, err *DecodeError) {
	var root, scope, missing byte // of the record before; zero sorts before all
	var path string
	for range uint32At(doc, atRuleCount) {
		start := off + rulePrefix
		if len(doc) < start {
			return 0, scanFields(doc, off, ruleFields[:])
		}
		p := doc[off:start]
		size := uint32At(p, atPathLength)
		if p[0] != kindRule || !Access(p[1]).valid() || !Root(p[2]).valid() || !Scope(p[3]).valid() ||
			!Missing(p[4]).valid() || p[5]|p[6]|p[7] != 0 || size > MaxPath {
			return 0, scanFields(doc, off, ruleFields[:])
		}
		next := start + int(size)
		if len(doc) < next {
			return 0, faultf(CodeTruncated, start, "expected a path of %d bytes, found the end after %d", size, len(doc)-start)
		}
		before := path
		path = doc[start:next]
		if !isNormal(Root(p[2]), path) {
			return 0, pathFault(Root(p[2]), path, start)
		}
		sorted := p[2] > root
		if p[2] == root {
			c := strings.Compare(before, path)
			sorted = c < 0 || c == 0 && (scope < p[3] || scope == p[3] && missing < p[4])
		}
		if !sorted {
			return 0, faultf(CodeNotCanonical, off, "expected a record that sorts after the one before it and has another target")
		}
		root, scope, missing, off = p[2], p[3], p[4], next
	}
	return off, nil
}

// scanDestinations checks the network records, which begin at off, and returns
// where they end.
func scanDestinations(doc string, off int) (end int, err *DecodeError) {
	var host string // of the record before; empty sorts before all
	var port uint16
	for range uint32At(doc, atDestinationCount) {
		start := off + destinationPrefix
		if len(doc) < start {
			return 0, scanFields(doc, off, destinationFields[:])
		}
		p := doc[off:start]
		size := uint32At(p, atHostLength)
		portBefore := port
		port = uint16(p[2])<<8 | uint16(p[3])
		if p[0] != kindDestination || p[1] != protocolTCP || port == 0 || size == 0 || size > MaxHostname {
			return 0, scanFields(doc, off, destinationFields[:])
		}
		next := start + int(size)
		if len(doc) < next {
			return 0, faultf(CodeTruncated, start, "expected a hostname of %d bytes, found the end after %d", size, len(doc)-start)
		}
		before := host
		host = doc[start:next]
		if !isHostname(host) {
			return 0, hostFault(host, start)
		}
		if c := strings.Compare(before, host); c > 0 || c == 0 && portBefore >= port {
			return 0, faultf(CodeNotCanonical, off, "expected a record that sorts after the one before it")
		}
		off = next
	}
	return off, nil
}

// pathFault says why path, which is not in normal form, is not.
func pathFault(root Root, path string, off int) *DecodeError {
	normal, err := normalPath(root, path)
	if err != nil {
		return faultf(CodeInvalidPath, off, "%s", err.Message)
	}
	return faultf(CodeNotCanonical, off, "expected the path in normal form, %.80q, found %.80q", normal, path)
}

// hostFault says why name is not a hostname in lower case.
func hostFault(name string, off int) *DecodeError {
	lower, err := NewHostname(name)
	if err != nil {
		return faultf(CodeInvalidHost, off, "%s: %.80q", hostnameFault(name), name)
	}
	return faultf(CodeNotCanonical, off, "expected the hostname in lower case, %.80q, found %.80q", lower, name)
}
