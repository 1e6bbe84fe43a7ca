package proxy_test

import (
	"bytes"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/sources"
)

// fromFile returns table with an origin.
func fromFile(endpoints, line int) sources.Table {
	t := table(endpoints)
	t.Services.At(0).Origin = sources.Origin{Source: "file", File: "services.toml", Line: line}
	return t
}

// If a VIP becomes the default gateway, the table is judged again although it did not
// change. The VIP is withheld and the service named. That stays so when the file is
// edited, and ends with another gateway.
func TestGatewayBecomesVIP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := start(t, func(r *run) { r.options.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		defer r.end()
		gateway := func(addr string) {
			r.kernel.SetNode(kernel.Node{Gateways: []netip.Addr{netip.MustParseAddr(addr)}})
			r.proxy.Check(proxy.CauseNode)
			pass(time.Second)
		}
		want := func(when string, line string) {
			t.Helper()
			var got []string
			for _, p := range r.last().Problems {
				got = append(got, p.Error())
			}
			problem := "services.toml:" + line + ": web: left out: VIP 10.96.0.1 is this node's default gateway: bound here it would cut the node off"
			if line == "" && len(got) > 0 || line != "" && !slices.Equal(got, []string{problem}) {
				t.Errorf("%s: problems %q", when, got)
			}
			now := r.proxy.Snapshot()
			if got := now.Table.Services.Len() == 1 && len(now.Table.Services.At(0).Withheld) > 0; got != (line != "") {
				t.Errorf("%s: withheld %t", when, got)
			}
		}
		r.emit(fromFile(1, 1))
		gateway("192.0.2.3")
		want("with another gateway", "")
		gateway("10.96.0.1")
		want("with the VIP as the gateway", "1")
		r.emit(fromFile(1, 2))
		want("after a comment in the file", "2")
		gateway("192.0.2.3")
		want("with another gateway again", "")
		if n := strings.Count(log.String(), "is this node's default gateway"); n != 2 {
			t.Errorf("logged %d times, want once for each line:\n%s", n, &log)
		}
	})
}

// If the facts of the configuration change, tables that did not change are judged again.
func TestSetFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := start(t, func(r *run) {
			r.options.Facts = sources.HostFacts{Scheduler: "wrr"}
			r.options.Log = slog.New(slog.NewTextHandler(&log, nil))
		})
		defer r.end()
		weighted := fromFile(2, 1)
		weighted.Services.At(0).Endpoints[1].Weight = 2
		r.emit(weighted)
		want := func(doubts ...string) {
			t.Helper()
			if got := r.proxy.Snapshot().Doubts; !slices.Equal(got, doubts) {
				t.Errorf("doubts %q, want %q", got, doubts)
			}
		}
		want()
		const doubt = `services.toml:1: web: scheduler "rr" ignores weights, and they differ: "wrr" would heed them`
		r.proxy.SetFacts(sources.HostFacts{Scheduler: "rr"})
		r.proxy.Check(proxy.CauseConfig)
		pass(time.Second)
		want(doubt)
		pass(5 * time.Minute)
		if n := strings.Count(log.String(), "ignores weights"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, &log)
		}
		r.proxy.SetFacts(sources.HostFacts{Scheduler: "wrr"})
		r.proxy.Check(proxy.CauseConfig)
		pass(time.Second)
		want()
	})
}

// OnSync gets what differs from the table of the snapshot before, once.
func TestDelta(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var deltas []sources.Delta
		r := start(t, func(r *run) {
			r.options.OnSync = func(now *proxy.Snapshot) {
				r.report(now)
				deltas = append(deltas, now.Delta)
			}
		})
		defer r.end()
		r.emit(table(1))
		r.emit(table(2))
		r.proxy.Check(proxy.CauseAsked)
		pass(time.Second)
		r.emit(sources.Table{})
		want := []sources.Delta{
			{Changes: []sources.Change{{Namespace: "default", Name: "web", Was: -1, Service: true, Endpoints: true}}},
			{Changes: []sources.Change{{Namespace: "default", Name: "web", Endpoints: true}}},
			{},
			{Changes: []sources.Change{{Namespace: "default", Name: "web", Is: -1, Service: true, Endpoints: true}}},
		}
		if !slices.EqualFunc(deltas, want, func(a, b sources.Delta) bool { return slices.Equal(a.Changes, b.Changes) }) {
			t.Errorf("got  %+v\nwant %+v", deltas, want)
		}
		if d := r.proxy.Snapshot().Delta; len(d.Changes) > 0 {
			t.Errorf("the snapshot that is kept has %+v", d)
		}
	})
}
