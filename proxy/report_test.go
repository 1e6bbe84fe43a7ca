package proxy_test

import (
	"bytes"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
)

func TestStages(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for name, c := range map[string]struct {
		report proxy.Report
		want   proxy.Stages
		ok     bool
	}{
		"a file's event": {
			proxy.Report{Seen: at(0), Changed: at(52), Start: at(53), Planned: at(60), Duration: ms(20)},
			proxy.Stages{Parse: ms(52), Plan: ms(8), Apply: ms(13), Total: ms(73)}, true,
		},
		"no event noticed": {
			proxy.Report{Changed: at(52), Start: at(53), Planned: at(60), Duration: ms(20)},
			proxy.Stages{Plan: ms(8), Apply: ms(13), Total: ms(21)}, true,
		},
		"two sources, the older table of an unnoticed event": {
			proxy.Report{Seen: at(55), Changed: at(52), Start: at(53), Planned: at(60), Duration: ms(20)},
			proxy.Stages{Plan: ms(8), Apply: ms(13), Total: ms(21)}, true,
		},
		"about no change":   {report: proxy.Report{Start: at(53), Planned: at(60), Duration: ms(20)}},
		"kernel not read":   {report: proxy.Report{Changed: at(52), Start: at(53), Duration: ms(20)}},
		"nothing happened":  {},
		"not even a change": {report: proxy.Report{Start: at(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, ok := c.report.Stages(); got != c.want || ok != c.ok {
				t.Errorf("%+v, %v; want %+v, %v", got, ok, c.want, c.ok)
			}
		})
	}
}

// The line has the stages of a change. A sync without a change has none.
func TestSyncedLineHasTheStages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := start(t, func(r *run) { r.options.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		defer r.end()
		changed := table(2)
		changed.Seen = time.Now()
		pass(50 * time.Millisecond)
		r.emit(changed)
		if !regexp.MustCompile(`msg=synced .* parse=50ms plan=\S+ apply=\S+ total=5\S+ms took=\S+\n$`).MatchString(log.String()) {
			t.Errorf("log:\n%s", log.String())
		}
	})
}

func TestOnSourceGetsTablesAndErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []proxy.SourceState
		r := start(t, func(r *run) {
			r.options.OnSource = func(s proxy.SourceState) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, s)
			}
		})
		defer r.end()
		r.emit(table(1))
		broken := errors.New("no such file")
		pass(time.Second)
		r.source <- emission{err: broken}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(got) != 2 || !got[0].Delivered || got[0].Err != nil || got[1].Err != broken || !got[1].Since.After(got[0].Since) {
			t.Errorf("got %+v", got)
		}
	})
}

// Every changed kernel parameter is logged with its old value. One that could not be
// written is not.
func TestSysctlsAreLogged(t *testing.T) {
	change := func(name, from, to string) kernel.Op {
		return kernel.Op{Verb: kernel.Change, Was: kernel.Sysctl{Name: name, Value: from}, Object: kernel.Sysctl{Name: name, Value: to}}
	}
	refused := change("net.ipv4.conf.all.arp_ignore", "0", "1")
	r := proxy.Report{
		Plan: kernel.Plan{Ops: []kernel.Op{
			change("net.ipv4.ip_forward", "0", "1"), refused,
			{Verb: kernel.Change, Was: kernel.Timeouts{TCP: 900, UDP: 300}, Object: kernel.Timeouts{TCP: 60}},
		}},
		Err: &kernel.ApplyError{Failed: []*kernel.OpError{{Index: 1, Op: refused, Err: syscall.EROFS}}},
	}
	var lines []string
	for _, c := range r.Sysctls() {
		lines = append(lines, c.String())
	}
	if len(lines) != 2 || lines[0] != "net.ipv4.ip_forward: 0 -> 1" || !strings.HasSuffix(lines[1], ": 900 -> 60") {
		t.Errorf("%q", lines)
	}
}
