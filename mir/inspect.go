package mir

import (
	"bytes"
	"encoding/json"
)

// Inspect returns p as JSON for people and tools: fixed members in a fixed order,
// indented by two spaces, with a newline at the end. It is a view. The identity
// of a decision is its bytes, and nothing reads this form back.
func (p *Policy) Inspect() []byte {
	type rule struct {
		Access  string `json:"access"`
		Root    string `json:"root"`
		Path    string `json:"path"`
		Scope   string `json:"scope"`
		Missing string `json:"missing"`
	}
	type destination struct {
		Protocol string `json:"protocol"`
		Host     string `json:"host"`
		Port     uint16 `json:"port"`
	}
	var view struct {
		InspectionVersion int `json:"inspectionVersion"`
		MIRFormatVersion  int `json:"mirFormatVersion"`
		Identity          struct {
			Algorithm      string `json:"algorithm"`
			Basis          string `json:"basis"`
			DecisionDigest string `json:"decisionDigest"`
		} `json:"identity"`
		Filesystem struct {
			Default string `json:"default"`
			Rules   []rule `json:"rules"`
		} `json:"filesystem"`
		Network struct {
			Mode  string        `json:"mode"`
			Allow []destination `json:"allow,omitempty"`
		} `json:"network"`
		Process struct {
			TreeConfinement string `json:"treeConfinement"`
		} `json:"process"`
	}
	view.InspectionVersion = 1
	view.MIRFormatVersion = 2
	view.Identity.Algorithm = "sha256"
	view.Identity.Basis = "canonical-mir-v2-bytes"
	view.Identity.DecisionDigest = p.Digest().String()
	view.Filesystem.Default = "deny"
	view.Filesystem.Rules = make([]rule, 0, len(p.rules))
	for _, r := range p.rules {
		view.Filesystem.Rules = append(view.Filesystem.Rules,
			rule{r.Access.String(), r.Path.root.String(), r.Path.text, r.Scope.String(), r.Missing.String()})
	}
	view.Network.Mode = p.Mode().String()
	for _, d := range p.destinations {
		view.Network.Allow = append(view.Network.Allow, destination{"tcp", d.Host.text, d.Port})
	}
	view.Process.TreeConfinement = p.TreeConfinement().String()

	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(view); err != nil {
		panic("mir: internal error: strings and numbers always encode: " + err.Error())
	}
	return out.Bytes()
}
