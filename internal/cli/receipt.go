package cli

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"maelys.dev/maelys/warden"
)

// A receiptFile is where a receipt goes. The directory is opened before the launch: the
// command may be able to put another in its place.
type receiptFile struct {
	dir  *os.Root // nil when no receipt is wanted
	name string
}

// newReceiptFile opens the directory of a receipt, or says why there cannot be one.
func newReceiptFile(name, policy string) (*receiptFile, *result) {
	if name == "" {
		return &receiptFile{}, nil
	}
	if policy != "" && sameFile(name, policy) {
		return nil, usagef("name another file with --receipt", "the receipt %s is the policy", printable(name))
	}
	dir, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return nil, unwritten(name, cause(err))
	}
	f := &receiptFile{dir, filepath.Base(name)}
	switch info, err := dir.Lstat(f.name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		f.close()
		return nil, unwritten(name, cause(err))
	case !info.Mode().IsRegular():
		f.close()
		return nil, unwritten(name, errors.New("it is no regular file"))
	}
	return f, nil
}

func (f *receiptFile) close() {
	if f.dir != nil {
		_ = f.dir.Close() // it was only read
	}
}

// write writes the receipt whole or not at all. What is there by the name is replaced, and
// never followed.
func (f *receiptFile) write(data []byte) error {
	if f.dir == nil {
		return nil
	}
	temporary := temporaryName()
	file, err := f.dir.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return cause(err)
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = f.dir.Rename(temporary, f.name)
	}
	if err != nil {
		_ = f.dir.Remove(temporary)
		return cause(err)
	}
	return nil
}

// A receiptInfo is a receipt. What is not known, because the launch did not come so far,
// is left out.
type receiptInfo struct {
	Version     int              `json:"receiptVersion"`
	Outcome     string           `json:"outcome"` // exited:N, signaled:N, canceled, failed or refused
	Status      int              `json:"exitStatus"`
	Decision    string           `json:"decisionDigest,omitempty"`
	PlanDigest  string           `json:"planDigest,omitempty"`
	Policy      string           `json:"policy"`
	Diagnostics []diagnostic     `json:"diagnostics,omitempty"` // why it was refused, or failed
	Backend     string           `json:"backend,omitempty"`
	Layers      []warden.Layer   `json:"layers,omitempty"`
	Command     commandInfo      `json:"command"`
	Started     time.Time        `json:"started"`
	Ended       time.Time        `json:"ended"`
	Seconds     secondsInfo      `json:"seconds"`
	PeakMemory  int64            `json:"peakMemoryBytes"`
	Steps       []stepInfo       `json:"steps,omitempty"`
	Connections []connectionInfo `json:"connections"`
	Refusals    []refusalInfo    `json:"refusals"`
	Untold      int              `json:"untoldEvents,omitempty"` // of the network, for which there was no room
	Plan        json.RawMessage  `json:"plan,omitempty"`
}

type commandInfo struct {
	Path      string   `json:"path,omitempty"`
	Args      []string `json:"arguments"`
	Directory string   `json:"directory,omitempty"`
}

type secondsInfo struct {
	Wall   float64 `json:"wall"`
	User   float64 `json:"user"`
	System float64 `json:"system"`
}

type stepInfo struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// receiptJSON returns the receipt.
func (r *running) receiptJSON(failed *result, status int) []byte {
	w := r.receipt
	if w.Ended.IsZero() {
		w.Ended = time.Now()
	}
	info := receiptInfo{
		Version: 1, Outcome: r.outcome(), Status: status, Policy: r.policy, Backend: string(w.Backend), Layers: w.Layers,
		Command: commandInfo{r.path, r.args, r.dir}, Started: w.Started.UTC(), Ended: w.Ended.UTC(),
		Seconds:    secondsInfo{w.Ended.Sub(w.Started).Seconds(), w.User.Seconds(), w.System.Seconds()},
		PeakMemory: w.PeakMemory, Connections: connectionInfos(&w.Traffic), Refusals: refusalInfos(&w.Traffic), Untold: w.Traffic.Untold,
	}
	for _, s := range w.Steps {
		info.Steps = append(info.Steps, stepInfo{s.Name, s.Took.Seconds()})
	}
	if failed != nil {
		info.Diagnostics = failed.Diagnostics
	}
	if r.in != nil {
		info.Decision = r.decision.String()
	}
	if r.plan != nil {
		info.PlanDigest, info.Plan = r.plan.Digest().String(), r.plan.Inspect()
	}
	data, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		panic("maelys: internal error: a receipt always encodes: " + err.Error())
	}
	return append(data, '\n')
}
