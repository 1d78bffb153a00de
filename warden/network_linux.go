//go:build amd64 || arm64

package warden

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"

	"maelys.dev/maelys/internal/linux"
	"maelys.dev/maelys/mediator"
	"maelys.dev/maelys/mir"
	"maelys.dev/maelys/plan"
)

// A mediation is what connects one command to the destinations of its plan. A nil one is that
// of a plan with another network.
type mediation struct {
	mediator  *mediator.Mediator
	listeners []netip.AddrPort
	handed    []int // sockets from the child, until the mediator has them
}

const (
	filesPerConnection = 3  // two sockets, and one more while they are connected
	otherFiles         = 64 // that this process has open
)

// mediate returns the mediation of a plan, nil for one that needs none. What it sees is noted
// in the receipt when it is closed.
func mediate(p *plan.Plan, c *Command, r *Receipt) (*mediation, error) {
	if p.Mode() != mir.ModeMediated {
		return nil, nil
	}
	machine, _ := os.Hostname() // or there is a name less
	t := &traffic{receipt: &r.Traffic, report: c.Network.Report}
	config := mediator.Config{
		Destinations: p.Destinations(), Machine: machine, Pins: map[mir.Destination]netip.AddrPort{},
		Proxy: c.Network.Proxy, Lookup: c.Network.Lookup, Connections: c.Network.Connections, Report: t.add,
	}
	for _, host := range p.AllowPrivate() {
		config.AllowPrivate = append(config.AllowPrivate, host.String())
	}
	for _, pin := range p.Pins() {
		config.Pins[pin.Destination] = pin.Address
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil && config.Connections <= 0 {
		few := max(1, int64(min(files.Cur, 1<<40))-otherFiles-int64(len(config.Destinations))) / filesPerConnection
		config.Connections = int(max(1, min(mediator.DefaultConnections, few)))
	}
	m, err := mediator.New(config)
	if err != nil {
		return nil, &LaunchError{Step: "preparing the network", Err: err}
	}
	return &mediation{mediator: m, listeners: m.Names().Listeners()}, nil
}

// listen has the child make the sockets in its network, and hand them out.
func (m *mediation) listen(run *linux.Program) error {
	if err := run.LocalRange(mediator.Synthetic()); err != nil {
		return err
	}
	var sockets []linux.Value
	for _, at := range m.listeners {
		sockets = append(sockets, run.Listen(at))
	}
	run.HandOut(append(sockets, run.Datagrams(m.mediator.Names().Questions())))
	return nil
}

// texts returns what is in the files of the sandbox's own.
func (m *mediation) texts(p *plan.Plan) map[string][]byte {
	if m == nil {
		return nil
	}
	hosts, resolver := p.NameFiles()
	return map[string][]byte{hosts: m.mediator.Names().Hosts(), resolver: m.mediator.Names().ResolvConf()}
}

// serve has the mediator begin, with the sockets that have come from the child. Until then
// connections wait where they are: a command that makes none has no use for it.
func (m *mediation) serve() error {
	all := m.handed
	m.handed = nil
	var listeners []linux.Socket
	for _, fd := range all[:len(m.listeners)] {
		listeners = append(listeners, linux.Socket(fd))
	}
	file := os.NewFile(uintptr(all[len(m.listeners)]), "questions")
	datagrams, err := net.FilePacketConn(file)
	_ = file.Close() // package net has one of its own
	if err != nil {
		for _, s := range listeners {
			s.Close()
		}
		return fmt.Errorf("a socket from the child: %w", err)
	}
	return m.mediator.Serve(listeners, datagrams)
}

// close ends all connections.
func (m *mediation) close() {
	if m == nil {
		return
	}
	m.mediator.Close()
	for _, fd := range m.handed {
		linux.CloseFd(fd)
	}
}
