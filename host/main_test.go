//go:build linux

package host_test

import (
	"testing"

	"maelys.dev/maelys/internal/corpus"
)

func TestAsOrdinaryUser(t *testing.T) {
	corpus.AsOrdinaryUser(t, "TestCorpus/locked-parent", "TestFilesystem", "TestChanged", "TestReadNamesDenials", "TestProcAgrees")
}
