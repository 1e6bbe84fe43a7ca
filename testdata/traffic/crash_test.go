package traffic

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// If svcproxy is killed at any time during a load, the ownership set names every
// virtual server that it made, and no VIP is bound without one. After a restart
// the kernel is as after a load from empty. What is not ours it never touches.
//
// A kill takes half a minute in a guest. TestCutAtEverySend of kernel/host ends a load at every single send.
func TestKilledDuringALoad(t *testing.T) {
	kills, _ := endures(t, 0, 4, 8)
	crashes{kills: kills, counts: []string{"ip_vs"}, want: wantOwned}.run(t)
}

// crashes are kills of svcproxy during loads in one mode.
type crashes struct {
	main   string
	kills  int
	counts []string                               // files in /proc/net with a line for what the kernel gets during a load
	want   func(t *testing.T, killed lab.Reading) // what holds at any time
}

func (c crashes) run(t *testing.T) {
	table := services(500, `["10.5.0.1"]`) + web
	n := newLonelyNode(t, c.main)
	n.plantForeign(t)
	empty := n.read(t)
	n.start(t, table) // the first finds no module loaded
	loaded := n.read(t)
	c.want(t, loaded)
	wantForeign(t, empty, loaded)
	n.cleanUp(t, empty)
	begin, mark := time.Now(), n.Log.Len()
	middle := n.startUntilMore(t, c.counts[0])
	n.synced(t, mark)
	before, during := middle.Sub(begin), time.Since(middle)
	n.cleanUp(t, empty)

	stages := map[string]int{}
	for i := range c.kills {
		// Half of the kills come before the middle and half after it, one at a random
		// time in each part.
		part := func(whole time.Duration) time.Duration {
			return whole*time.Duration(i/2)/time.Duration(c.kills/2) + time.Duration(rand.Int64N(int64(whole)))/time.Duration(c.kills/2)
		}
		after := part(before)
		if i%2 == 0 {
			must(t, n.Start())
		} else {
			after = part(during)
			n.startUntilMore(t, c.counts[i/2%len(c.counts)])
		}
		time.Sleep(after) // the time is what this test is about
		n.Kill()
		killed := n.read(t)
		stages[stage(killed)]++
		c.want(t, killed)
		wantForeign(t, empty, killed)

		mark = n.Log.Len()
		must(t, n.Start())
		_, err := n.Wait(mark, "msg=starting") // then it can be stopped, and rules that it tried are gone
		must(t, err)
		n.healed(t, loaded)
		n.cleanUp(t, empty)
		if t.Failed() {
			t.Fatalf("killed %v after its start or its middle", after)
		}
	}
	t.Logf("%v until the middle of a load, %v from then on; found at the kills: %v", before, during, stages)
}

// startUntilMore starts svcproxy and returns when a file in /proc/net has more lines.
func (n node) startUntilMore(t *testing.T, file string) time.Time {
	t.Helper()
	count := func() (lines int, err error) {
		err = n.Lab.Node.Do(func() error {
			text, err := os.ReadFile("/proc/thread-self/net/" + file)
			lines = strings.Count(string(text), "\n")
			return err
		})
		return lines, err
	}
	before, err := count()
	must(t, err)
	must(t, n.Start())
	must(t, lab.Eventually(patience, func() error {
		if now, err := count(); err != nil || now > before {
			return err
		}
		return fmt.Errorf("no more lines in %s", file)
	}))
	return time.Now()
}

// stage says how far a load had got.
func stage(r lab.Reading) string {
	begins := func(lines []string, with string) bool {
		return slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, with) })
	}
	switch {
	case begins(r.Addrs, "kube-ipvs0 "):
		return "addresses"
	case begins(r.Virtuals, "-a -t 10.97."):
		return "real servers"
	case begins(r.Virtuals, "-A -t 10.97."):
		return "virtual servers"
	case begins(r.Rules, "iptables-save :KUBE-"):
		return "chains"
	case begins(r.Sets, "create KUBE-"):
		return "sets"
	}
	return "nothing"
}

// cleanUp stops svcproxy and has `cleanup` take away all that is ours.
func (n node) cleanUp(t *testing.T, empty lab.Reading) {
	t.Helper()
	must(t, n.Stop())
	out, code, err := n.Command("cleanup")
	must(t, err)
	if code != 0 {
		t.Fatalf("cleanup: exit code %d\n%s", code, out)
	}
	if diff := lab.Diff(empty, n.read(t)); diff != "" {
		t.Fatalf("the kernel before svcproxy and after cleanup:\n%s", head(diff))
	}
}

// wantOwned wants every virtual server but the foreign one in its ownership set,
// and every address on kube-ipvs0 to have a virtual server.
func wantOwned(t *testing.T, r lab.Reading) {
	t.Helper()
	virtuals, err := lab.VirtualServers(r.Virtuals)
	must(t, err)
	served := map[string]bool{}
	for _, v := range virtuals {
		served[v.Addr.Addr().String()] = true
		set := "KUBE-VIRTUAL-SERVER"
		if v.Addr.Addr().Is6() {
			set = "KUBE-6-VIRTUAL-SERVER"
		}
		if entry := fmt.Sprintf("add %s %s", set, v.Entry); v.Addr.String() != foreignVirtual && !slices.Contains(r.Sets, entry) {
			t.Errorf("virtual server %s is not in %s", v.Addr, set)
		}
	}
	for _, line := range r.Addrs {
		if vip, ok := strings.CutPrefix(line, "kube-ipvs0 "); ok {
			addr, _, _ := strings.Cut(vip, "/")
			if !served[addr] && !strings.HasPrefix(addr, "fe80:") {
				t.Errorf("%s is bound and has no virtual server", addr)
			}
		}
	}
}

const foreignVirtual = "192.0.2.1:9999"

// plantForeign makes one of everything that svcproxy also makes, with names and
// addresses that are not its own.
func (n node) plantForeign(t *testing.T) {
	t.Helper()
	must(t, n.Lab.Node.IP("addr add 203.0.113.77/32 dev lo"))
	if kerneltest.IPVS.Missing() == nil {
		n.feed(t, "-A -t "+foreignVirtual+" -s wlc -p 77\n-a -t "+foreignVirtual+" -r 10.2.1.10:9 -m -w 3\n", "ipvsadm", "-R")
	}
	n.feed(t, "create FOREIGN hash:ip,port\nadd FOREIGN 203.0.113.77,tcp:80\ncreate FOREIGN6 hash:net family inet6\nadd FOREIGN6 2001:db8:77::/64\n", "ipset", "restore")
	for _, tool := range []string{"iptables-restore", "ip6tables-restore"} {
		n.feed(t, "*nat\n:FOREIGN - [0:0]\n-A PREROUTING -p tcp --dport 7777 -j FOREIGN\n-A FOREIGN -j RETURN\nCOMMIT\n"+
			"*filter\n:FOREIGN - [0:0]\n-A INPUT -p tcp --dport 7777 -j FOREIGN\n-A FORWARD -j FOREIGN\n-A FOREIGN -m comment --comment \"not svcproxy's\" -j RETURN\nCOMMIT\n"+
			// A user who may not list the legacy tables creates this one by asking for it.
			"*raw\n:FOREIGN - [0:0]\n-A PREROUTING -p tcp --dport 7777 -j FOREIGN\nCOMMIT\n",
			tool)
	}
}

// wantForeign wants the lines about foreign objects to be what they were.
func wantForeign(t *testing.T, before, after lab.Reading) {
	t.Helper()
	foreign := func(line string) bool {
		return strings.Contains(line, "FOREIGN") || strings.Contains(line, foreignVirtual) || strings.HasPrefix(line, "lo ")
	}
	if diff := lab.Diff(before.Keep(foreign), after.Keep(foreign)); diff != "" {
		t.Errorf("foreign objects before and after:\n%s", diff)
	}
	if len(before.Keep(foreign).Lines()) < 20 {
		t.Errorf("too little to compare: %q", before.Keep(foreign).Lines())
	}
}

// head is the beginning of a long text.
func head(text string) string {
	lines := strings.SplitAfter(text, "\n")
	if len(lines) > 40 {
		return strings.Join(lines[:40], "") + fmt.Sprintf("and %d more lines\n", len(lines)-40)
	}
	return text
}
