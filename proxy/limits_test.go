package proxy_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/sources"
)

// The kernel is asked whether it can refuse clients if a service wants that, until it can. What only failed changes
// nothing.
func TestLimitsAreAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		var answer error = &kernel.MissingError{What: "no nftables", Hint: "modprobe nf_tables"}
		r := start(t, func(r *run) {
			r.options.TryLimits = func() error { asked++; return answer }
		})
		defer r.end()
		want := func(when string, served, wantAsked int) {
			t.Helper()
			if got := r.proxy.Snapshot().Table.Services.Len(); got != served || asked != wantAsked {
				t.Errorf("%s: %d services, asked %d times; want %d, %d", when, got, asked, served, wantAsked)
			}
		}
		limited := func(endpoints int) sources.Table {
			table := fromFile(endpoints, 1)
			table.Services.At(0).Clients = &sources.Clients{Connections: 1}
			return table
		}
		check := func() {
			r.proxy.Check(proxy.CauseNode)
			pass(time.Second)
		}
		r.emit(fromFile(1, 1))
		pass(time.Second)
		want("without limits", 1, 0)
		r.emit(limited(1))
		pass(time.Second)
		want("with limits", 0, 1)
		if p := r.last().Problems; len(p) != 1 {
			t.Errorf("%v", p)
		}
		check()
		want("at a check", 0, 2)
		answer = errors.New("no memory")
		check()
		want("after an error", 0, 3)
		answer = nil
		check()
		want("with nftables", 1, 4)
		check()
		r.emit(limited(2))
		pass(time.Second)
		want("later", 1, 4)
	})
}
