package appliance

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// fleetVIP is what the servers of a fleet answer on.
var fleetVIP = netip.MustParseAddrPort("198.51.100.80:7000")

// fleet is several nodes, each with a file system, systemd and network of its own. They share the guest's kernel.
type fleet struct {
	*lab.Fabric
	inits     []int // process 1 of each node, as the guest sees it
	flows     *lab.Flows
	newcomers *lab.Newcomers
	stop      chan struct{}
	stopped   chan struct{}
}

// bootPatience is how long a node may take to boot while the others do, too.
const bootPatience = 3 * patience

// begin boots the nodes: fleet NODES SERVERS PROGRAM. The program boots one.
func (f *fleet) begin(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: fleet NODES SERVERS PROGRAM")
	}
	nodes, err := strconv.Atoi(args[0])
	ts.Check(err)
	servers, err := strconv.Atoi(args[1])
	ts.Check(err)
	f.Fabric, err = lab.NewFabric(nodes, servers, fleetVIP.Addr())
	ts.Check(err)
	ts.Defer(func() { f.Close() })
	for _, h := range f.Nodes {
		cmd := exec.Command("unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "sh", ts.MkAbs(args[2]), h.Name)
		cmd.Env = append(os.Environ(), "WORK="+ts.Getenv("WORK"), "PACKAGES="+ts.Getenv("PACKAGES"))
		log, err := os.Create(ts.MkAbs(h.Name + ".log"))
		ts.Check(err)
		cmd.Stdout, cmd.Stderr = log, log
		ts.Check(h.Start(cmd))
		ts.Defer(func() { cmd.Process.Kill(); cmd.Wait(); log.Close() })
		f.inits = append(f.inits, firstChild(ts, cmd.Process.Pid))
	}
	for n := range f.inits {
		ts.Check(lab.Eventually(bootPatience, func() error {
			_, err := f.run(n+1, "systemctl", "is-active", "multi-user.target")
			return err
		}))
	}
}

// firstChild waits for the child of a process.
func firstChild(ts *testscript.TestScript, pid int) (child int) {
	ts.Check(lab.Eventually(patience, func() error {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
		if err == nil {
			child, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err
	}))
	return child
}

// run runs a program on a node, counted from 1, which finds that number in $N.
func (f *fleet) run(n int, program ...string) (string, error) {
	cmd := exec.Command("nsenter", append([]string{"--all", "--root", "--wd", "--target", strconv.Itoa(f.inits[n-1]), "env", "N=" + strconv.Itoa(n)}, program...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("node %d: %s: %w: %s", n, strings.Join(program, " "), err, out)
	}
	return string(out), err
}

// on runs a program on one node after the other: on 1,2,3 PROGRAM [ARGS...].
func (f *fleet) on(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: on N[,N...] PROGRAM [ARGS...]")
	}
	for _, n := range numbers(ts, args[0]) {
		out, err := f.run(n, args[1:]...)
		ts.Logf("node %d: %s", n, out)
		ts.Check(err)
	}
}

func numbers(ts *testscript.TestScript, list string) (all []int) {
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(s)
		ts.Check(err)
		all = append(all, n)
	}
	return all
}

// router starts a program on the router: router PROGRAM [ARGS...].
func (f *fleet) router(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: router PROGRAM [ARGS...]")
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	ts.Check(f.Router.Start(cmd))
	ts.Defer(func() { cmd.Process.Kill(); cmd.Wait() })
}

// ways waits until the router sends clients of the VIP to these nodes and no others: ways 1,2,3.
func (f *fleet) ways(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: ways N[,N...]")
	}
	want, began := numbers(ts, args[0]), time.Now()
	err := lab.Eventually(patience, func() error {
		out, err := f.Router.Run("ip", "route", "show", fleetVIP.Addr().String())
		var have []int
		for line := range strings.Lines(strings.ReplaceAll(out, "nexthop", "\nnexthop")) {
			down := strings.Contains(line, "dead") || strings.Contains(line, "linkdown")
			if _, rest, ok := strings.Cut(line, "via 10.30."); ok && !down {
				have = append(have, numbers(ts, rest[:strings.Index(rest, ".")])...)
			}
		}
		slices.Sort(have)
		if err == nil && !slices.Equal(have, want) {
			err = fmt.Errorf("the router sends clients to the nodes %v, want %v", have, want)
		}
		return err
	})
	if err != nil {
		for n := range f.inits {
			out, err := f.run(n+1, "sh", "-c", announced)
			ts.Logf("node %d: %s%v", n+1, out, err)
		}
	}
	ts.Check(err)
	ts.Logf("after %v", time.Since(began).Round(time.Millisecond))
}

// announced shows how far the routes of a node come.
const announced = "ip route show table all | grep -F 198.51.100.; birdc show protocols; birdc show route table all; " +
	"vtysh -c 'show bgp summary' -c 'show ip route' -c 'show bgp ipv4 unicast'; journalctl --no-pager -n 100 -u bird -u frr -u svcproxy"

// link takes the router's link to a node down or up: link N down|up.
func (f *fleet) link(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: link N down|up")
	}
	ts.Check(f.Cut(numbers(ts, args[0])[0], args[1] == "down"))
}

// lose takes the power of a node: all its processes end at once, and its links go down.
func (f *fleet) lose(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: lose N")
	}
	n := numbers(ts, args[0])[0]
	ts.Check(syscall.Kill(f.inits[n-1], syscall.SIGKILL))
	ts.Check(f.Lose(n))
}

// askNowAndThen asks on all connections until stop is closed, and once more. Nodes of an emulated processor need most of it
// for themselves.
func askNowAndThen(flows *lab.Flows, stop, stopped chan struct{}) {
	defer close(stopped)
	for {
		select {
		case <-stop:
			flows.Round()
			return
		case <-time.After(3 * time.Second):
			flows.Round()
		}
	}
}

// hold opens connections to the VIP that are asked on until the next "flows end", while new clients come. None of
// them may be lost, and no new client refused: flows begin COUNT [NEW-A-SECOND], then flows end [OUTAGE]. Without a number
// ten come in a second. With an OUTAGE all that come for so long may be refused.
func (f *fleet) hold(ts *testscript.TestScript, neg bool, args []string) {
	switch {
	case !neg && (len(args) == 2 || len(args) == 3) && args[0] == "begin" && f.stop == nil:
		count, err := strconv.Atoi(args[1])
		ts.Check(err)
		fresh := 10
		if len(args) == 3 {
			fresh = numbers(ts, args[2])[0]
		}
		f.flows, err = f.Client.OpenFlows(count, fleetVIP)
		ts.Check(err)
		f.stop, f.stopped = make(chan struct{}), make(chan struct{})
		flows, stop, stopped := f.flows, f.stop, f.stopped
		f.newcomers = f.Client.Newcomers(fleetVIP, time.Second/time.Duration(fresh))
		go askNowAndThen(flows, stop, stopped)
		ts.Defer(flows.Close)
	case !neg && (len(args) == 1 || len(args) == 2) && args[0] == "end" && f.stop != nil:
		refused := -time.Nanosecond
		if len(args) == 2 {
			var err error
			refused, err = time.ParseDuration(args[1])
			ts.Check(err)
		}
		close(f.stop)
		<-f.stopped
		f.stop = nil
		visits, lost := f.newcomers.Stop(), f.flows.Lost()
		ts.Logf("%d connections lost; of %d new ones %d refused and %d lost, the slowest took %v", len(lost), visits.All, len(visits.Refused), len(visits.Lost), visits.Slowest)
		if len(lost)+len(visits.Lost) > 0 || len(visits.Refused) > 0 && visits.Outage > refused {
			ts.Fatalf("lost: %q; refused: %q; new and lost: %q", lost, visits.Refused, visits.Lost)
		}
	default:
		ts.Fatalf("usage: flows begin COUNT [NEW-A-SECOND], then flows end [OUTAGE]")
	}
}
