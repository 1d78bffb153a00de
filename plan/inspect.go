package plan

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Inspect returns p as JSON for people and tools: fixed members in a fixed order,
// indented by two spaces, with a newline at the end. It is a view; nothing reads it
// back. A path that is not UTF-8 has its bytes beside it, in base64.
func (p *Plan) Inspect() []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(p.view()); err != nil {
		panic("plan: internal error: strings and numbers always encode: " + err.Error())
	}
	return out.Bytes()
}

type planView struct {
	Version         int               `json:"planVersion"`
	DecisionDigests []string          `json:"decisionDigests"`
	PlanDigest      string            `json:"planDigest"`
	Host            hostView          `json:"host"`
	Rules           []ruleView        `json:"rules"`
	Omitted         []omissionView    `json:"omitted"`
	Links           []linkView        `json:"links"`
	Directories     []pathView        `json:"directories"`
	Network         networkView       `json:"network"`
	Process         processView       `json:"process"`
	Requirements    []requirementView `json:"requirements"`
}

type hostView struct {
	Workspace    string    `json:"workspace,omitempty"`
	Temp         string    `json:"temp"`
	PrivateTemp  bool      `json:"privateTemp"`
	Executable   string    `json:"executable,omitempty"`
	RuntimeRoots []string  `json:"runtimeRoots,omitempty"`
	AllowPrivate []string  `json:"allowPrivate,omitempty"`
	Pins         []pinView `json:"pins,omitempty"`
}

type pinView struct {
	Destination string `json:"destination"`
	Address     string `json:"address"`
}

type pathView struct {
	Path  string `json:"path"`
	Bytes []byte `json:"pathBytes,omitempty"`
}

type ruleView struct {
	Access string `json:"access"`
	pathView
	Scope    string        `json:"scope"`
	Rule     *int          `json:"rule"` // in the inspection of the policy; null when it is of another one
	Type     string        `json:"type"`
	Identity *identityView `json:"identity,omitempty"` // none when private
	Private  bool          `json:"private,omitempty"`
	Why      string        `json:"why,omitempty"`
}

type identityView struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

type omissionView struct {
	Rule *int `json:"rule"` // null when it is of another policy
	pathView
	Reason string `json:"reason"`
}

type linkView struct {
	pathView
	Target string `json:"target"`
	Bytes  []byte `json:"targetBytes,omitempty"`
}

type networkView struct {
	Mode  string            `json:"mode"`
	Allow []destinationView `json:"allow,omitempty"`
}

type destinationView struct {
	Protocol string `json:"protocol"`
	Host     string `json:"host"`
	Port     uint16 `json:"port"`
}

type processView struct {
	TreeConfinement string `json:"treeConfinement"`
}

type requirementView struct {
	Capability    string `json:"capability"`
	Rule          *int   `json:"planRule"` // index of a rule above; null for the network and the process policy
	Unenforceable bool   `json:"unenforceable,omitempty"`
}

func (p *Plan) view() planView {
	v := planView{
		Version:    1,
		PlanDigest: p.Digest().String(),
		Host: hostView{
			Workspace: p.at.workspace, Temp: p.at.temp, PrivateTemp: p.at.tempPrivate,
			Executable: p.at.executable, RuntimeRoots: p.at.runtimeRoots,
		},
		Rules:        make([]ruleView, 0, len(p.rules)),
		Omitted:      make([]omissionView, 0, len(p.omitted)),
		Links:        make([]linkView, 0, len(p.links)),
		Directories:  make([]pathView, 0, len(p.directories)),
		Network:      networkView{Mode: p.Mode().String()},
		Process:      processView{p.TreeConfinement().String()},
		Requirements: []requirementView{},
	}
	for _, policy := range p.policies {
		v.DecisionDigests = append(v.DecisionDigests, policy.Digest().String())
	}
	for _, host := range p.at.allowPrivate {
		v.Host.AllowPrivate = append(v.Host.AllowPrivate, host.String())
	}
	for _, pin := range p.at.pins {
		v.Host.Pins = append(v.Host.Pins, pinView{pin.Destination.String(), pin.Address.String()})
	}
	for _, r := range p.rules {
		rule := ruleView{
			Access: r.Access.String(), pathView: viewOf(r.Path), Scope: r.Scope.String(), Rule: index(r.Policy),
			Type: r.Identity.kind(), Private: r.Private, Why: r.Why,
		}
		if !r.Private {
			rule.Identity = &identityView{r.Identity.Device, r.Identity.Inode}
		}
		v.Rules = append(v.Rules, rule)
	}
	for _, o := range p.omitted {
		v.Omitted = append(v.Omitted, omissionView{index(o.Rule), viewOf(o.Path), o.Err.Error()})
	}
	for _, l := range p.links {
		v.Links = append(v.Links, linkView{viewOf(l.Path), l.Target, viewOf(l.Target).Bytes})
	}
	for _, path := range p.directories {
		v.Directories = append(v.Directories, viewOf(path))
	}
	for _, d := range p.Destinations() {
		v.Network.Allow = append(v.Network.Allow, destinationView{"tcp", d.Host.String(), d.Port})
	}
	for _, r := range p.Requirements() {
		v.Requirements = append(v.Requirements, requirementView{string(r.Capability), index(r.Rule), r.Unenforceable})
	}
	return v
}

func viewOf(path string) pathView {
	v := pathView{Path: path}
	if !utf8.ValidString(path) {
		v.Bytes = []byte(path)
	}
	return v
}

func index(i int) *int {
	if i < 0 {
		return nil
	}
	return &i
}
