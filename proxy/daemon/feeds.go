package daemon

import (
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/apiserver"
	"github.com/svcproxy/svcproxy/sources/dns"
	"github.com/svcproxy/svcproxy/sources/file"
	"github.com/svcproxy/svcproxy/sources/manifest"
)

func (d *daemon) files(s Setup) (*file.Source, error) {
	if err := storeIn(s.Config.StateDir).Make(); err != nil {
		d.log.Warn("no tables can be set", "err", err)
		d.noTables = true
	}
	o := s.Files()
	o.Log, o.Unwatched = d.log.Logger, d.unwatched
	return file.New(o)
}

// namedFiles are the service files with the DNS names in them.
type namedFiles struct {
	*file.Source
	dnsNames *dns.Names
}

// Notices say which files are waited for, and what is wrong with names.
func (f namedFiles) Notices() []string {
	return slices.Concat(f.Source.Notices(), f.dnsNames.Warnings())
}

// feeds are the sources, in the order of precedence.
func (d *daemon) feeds(s Setup, files namedFiles) ([]proxy.Feed, error) {
	feeds := []proxy.Feed{
		{Name: sources.Static, Source: files.dnsNames.Of(d.current.Source()), Logged: d.current.Standing().Refused},
		{Name: sources.Files, Source: files.dnsNames.Of(files.Source)},
	}
	if !s.Config.APIServer.Enabled {
		return feeds, nil
	}
	o := s.APIServer()
	o.OnNode, o.NoNode, o.Log, o.Metrics = d.isNode, d.isNoNode, d.log.Logger, requestMetrics{d}
	source, err := apiserver.New(o)
	return append(feeds, proxy.Feed{Name: sources.APIServer, Source: source}), err
}

// requestMetrics counts requests to the API server in the console's metrics. The feeds are
// made before the console, but send nothing before the loop runs.
type requestMetrics struct{ d *daemon }

func (m requestMetrics) Request(code, method, host string) {
	m.d.console.metrics.Request(code, method, host)
}

func (m requestMetrics) Latency(verb, host string, took time.Duration) {
	m.d.console.metrics.Latency(verb, host, took)
}

// isNode takes what the API server says of this node.
func (d *daemon) isNode(n manifest.Node) {
	d.object.Store(&n)
	d.log.Info("node", "zone", n.Zone, "podCIDRs", n.PodCIDRs, "leaving", n.Leaving)
	d.proxy.SetFacts(d.setup().Facts(kernel.Node{}))
	d.proxy.Check(proxy.CauseNode)
}

// isNoNode says what a missing Node object leaves open. Outside a cluster there is none, so it is a warning only if the
// configuration counts on the object.
func (d *daemon) isNoNode() {
	s := d.setup()
	c := s.Config
	d.log.Info("the API server has no Node object of this name: zone and CIDRs come from svcproxy.toml", "node", s.Node(),
		"node.zone", c.Node.Zone, "node.localCIDRs", c.Node.LocalCIDRs)
	if c.DetectLocalMode == string(mode.DetectNodeCIDR) && len(c.Node.LocalCIDRs) == 0 {
		d.log.Warn("detectLocalMode NodeCIDR finds no local traffic: it needs the podCIDRs of the Node object, or "+
			"node.localCIDRs", "node", s.Node())
	}
}

// eligible reports whether load balancers may send new connections to the node.
func (d *daemon) eligible() bool {
	object := d.object.Load()
	return object == nil || object.Eligible()
}

// table answers `svcproxy plan` with the last table of a source.
func (d *daemon) table(source string) control.Table {
	t, delivered := d.proxy.Table(source)
	answer := control.Table{Version: d.version, Delivered: delivered, Services: t.Services.Slice()}
	if object := d.object.Load(); object != nil {
		node := control.TableNode(nodeObject(*object))
		answer.Node = &node
	}
	return answer
}
