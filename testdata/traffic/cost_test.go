package traffic

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// services is a table of n cluster IPs with an endpoint each, but for the last
// one's, which are given. The addresses need no host behind them.
func services(n int, last string) string {
	var b strings.Builder
	for i := range n {
		endpoints := fmt.Sprintf("[\"10.3.%d.%d\"]", i/250, i%250+1)
		if i == n-1 {
			endpoints = last
		}
		b.WriteString(clusterIP(fmt.Sprintf("s%d", i), fmt.Sprintf("10.97.%d.%d", i/250, i%250+1), endpoints))
	}
	return b.String()
}

// A kernel that is as it should be is read, at the start and at each period, and
// not written to. After the start nothing is executed, not even to read.
func TestAdoptionAndIdleChecksWriteAndExecuteNothing(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("strace"))
	n := newLonelyNode(t, "ipvs.syncPeriod = \"1s\"")
	n.start(t, web+services(20, `["10.3.9.9"]`))
	must(t, n.Stop())
	before := n.read(t)

	mark := n.Log.Len()
	must(t, n.StartTraced())
	const checks = 4 // the start's and three of the period
	var trace lab.Trace
	must(t, lab.Eventually(patience, func() (err error) {
		if trace, err = n.Trace(); err != nil {
			return err
		}
		if starts := fullReads(trace); len(starts) <= checks {
			return fmt.Errorf("%d full readings of IPVS; svcproxy's log:\n%s", len(starts), n.Log.String()[mark:])
		}
		return nil
	}))
	must(t, n.Stop())

	wantOnlyHeldTable(t, trace)
	starts := fullReads(trace)
	for _, program := range trace[starts[1]:].Execs() {
		t.Errorf("executed after the first sync: %s", program)
	}
	for _, program := range trace[:starts[1]].Execs() {
		if strings.HasSuffix(program, "-restore") || strings.HasSuffix(program, "/ipset") || strings.HasSuffix(program, "/modprobe") {
			t.Errorf("executed at the start: %s", program)
		}
	}
	if log := n.Log.String()[mark:]; strings.Contains(log, "msg=synced") {
		t.Errorf("a sync that changed nothing was logged:\n%s", log)
	}
	if diff := lab.Diff(before, n.read(t)); diff != "" {
		t.Errorf("the kernel before and after:\n%s", diff)
	}
	t.Logf("calls for one idle check: %d", len(trace[starts[2]:starts[3]].Netlink()))
}

// fullRead is in the call that begins a reading of all of IPVS: the request for
// its IPv4 virtual servers.
const fullRead = "IP_VS_SO_GET_SERVICES"

// fullReads are the places in a trace where a reading of all of IPVS begins.
func fullReads(t lab.Trace) []int {
	var at []int
	for i, c := range t {
		if c.Name == "getsockopt" && strings.Contains(c.Line, fullRead) && (len(at) == 0 || !counts(t[:i])) {
			at = append(at, i)
		}
	}
	return at
}

// counts reports whether the last getsockopt of a trace asked for the number of
// virtual servers. A quick check begins with it, and so does the first reading.
func counts(t lab.Trace) bool {
	for _, c := range slices.Backward(t) {
		if c.Name == "getsockopt" {
			return strings.Contains(c.Line, "IP_VS_SO_GET_INFO")
		}
	}
	return false
}

// withoutQuickChecks leaves out the calls of quick checks, of which there is one a second, from
// a trace without checks, and those that look for clients who wait for an answer, of which there are six a minute.
func withoutQuickChecks(t lab.Trace) lab.Trace {
	looks := map[string]bool{} // their sockets, which nothing else uses
	for _, c := range t {
		if waitsAsked.MatchString(c.Line) {
			looks[trackingSocket.FindString(c.Line)] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(t), func(c lab.Call) bool {
		quick := strings.Contains(c.Line, "IP_VS_SO_GET_INFO") || strings.Contains(c.Line, fullRead)
		return c.Name == "getsockopt" && quick || looks[trackingSocket.FindString(c.Line)]
	})
}

var (
	trackingSocket = regexp.MustCompile(`<NETLINK:\[NETFILTER:\d+\]>`)
	// waitsAsked is a dump of connections that are filtered by their status, which makes the question this long.
	waitsAsked = regexp.MustCompile(`nlmsg_len=64, nlmsg_type=NFNL_SUBSYS_CTNETLINK<<8\|IPCTNL_MSG_CT_GET, ` +
		`nlmsg_flags=NLM_F_REQUEST\|NLM_F_DUMP,`)
)

// One endpoint costs the same in a small table and in a large one. A removed one
// costs one call more: its virtual server is asked whether connections are left.
func TestOneEndpointCostsFourCallsAtAnySize(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("strace"))
	for _, size := range []int{10, 1000} {
		t.Run(fmt.Sprint(size, " services"), func(t *testing.T) {
			n := newLonelyNode(t, "ipvs.syncPeriod = \"1h\"\nipvs.scheduler = \"wrr\"")
			n.start(t, services(size, `["10.5.0.9"]`))
			// A load that had to enlarge a set has the next sync read the kernel.
			n.serve(t, services(size, `["10.5.0.1"]`))
			for _, change := range []struct{ name, last string }{
				{"added", `["10.5.0.1", "10.5.0.2"]`},
				{"weighted", `["10.5.0.1", { address = "10.5.0.2", weight = 7 }]`},
				{"set to drain", `["10.5.0.1", { address = "10.5.0.2", weight = 0 }]`},
				{"removed", `["10.5.0.1"]`},
			} {
				mark := n.Log.Len()
				trace, err := n.TraceDuring(func() error {
					if err := n.Serve(services(size, change.last)); err != nil {
						return err
					}
					_, err := n.Wait(mark, lab.Synced)
					return err
				})
				must(t, err)
				calls := withoutQuickChecks(trace.Netlink())
				if change.name == "removed" {
					calls = without(calls, "IP_VS_SO_GET_DESTS", 1)
				}
				if len(calls) == 0 || len(calls) > 4 || len(calls.Dumps()) > 0 || len(trace.Execs()) > 0 {
					t.Errorf("an endpoint %s: %d netlink calls, %d dumps, executed %q; want at most 4, none, none\n%s",
						change.name, len(calls), len(calls.Dumps()), trace.Execs(), calls)
				}
			}
		})
	}
}

// without leaves out up to n calls that say what.
func without(t lab.Trace, what string, n int) lab.Trace {
	return slices.DeleteFunc(slices.Clone(t), func(c lab.Call) bool {
		found := n > 0 && strings.Contains(c.Line, what)
		if found {
			n--
		}
		return found
	})
}

// Loading costs calls by the hundreds of messages, not by the service.
func TestLoadIsBatched(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("strace"))
	const size = 300
	n := newLonelyNode(t, "")
	must(t, n.Serve(services(size, `["10.5.0.1"]`)))
	must(t, n.StartTraced())
	n.synced(t, 0)
	must(t, n.Stop())
	trace, err := n.Trace()
	must(t, err)

	own := trace.Own()
	messages, calls := map[string]int{}, map[string]int{}
	for i, c := range own {
		n := len(own[i : i+1].Writes())
		if n == 0 {
			continue
		}
		messages[c.Socket] += n
		// The send, and the receptions of its acknowledgements until this socket sends again.
		calls[c.Socket] += 1 + receptions(own[i+1:], c.Socket)
	}
	for _, socket := range []string{"GENERIC", "NETFILTER", "ROUTE"} {
		bound := 2*((messages[socket]+249)/250) + 8
		if messages[socket] == 0 || calls[socket] > bound {
			t.Errorf("%s: %d messages took %d calls, want at most %d", socket, messages[socket], calls[socket], bound)
		}
		t.Logf("%s: %d messages, %d calls", socket, messages[socket], calls[socket])
	}
	if want := 2 * size; messages["GENERIC"] != want {
		t.Errorf("%d messages to IPVS, want one for each virtual and real server: %d", messages["GENERIC"], want)
	}
	modprobes, programs := 0, []string(nil)
	for _, path := range trace.Execs()[1:] { // the first is svcproxy itself
		if name := filepath.Base(path); name == "modprobe" {
			modprobes++
		} else {
			programs = append(programs, name)
		}
	}
	slices.Sort(programs)
	// One for the version of both, and one that writes the rules of each family. There is nothing to read yet.
	want := []string{"ip6tables-restore", "iptables", "iptables-restore"}
	if native() {
		want = nil
	}
	if !slices.Equal(programs, want) || modprobes > 1 {
		t.Errorf("%d runs of modprobe, and the programs %q; want at most 1, and %q", modprobes, programs, want)
	}
}

func receptions(t lab.Trace, socket string) int {
	count := 0
	for _, c := range t {
		if c.Socket != socket {
			continue
		}
		if !strings.HasPrefix(c.Name, "recv") {
			break
		}
		count++
	}
	return count
}

// wantOnlyHeldTable wants a process, with the programs that it executed, to have written nothing but the table that keeps
// connections. That table belongs to the process, so each start makes it, in six messages.
func wantOnlyHeldTable(t *testing.T, trace lab.Trace) {
	t.Helper()
	held := 0
	for _, w := range trace.Writes() {
		if strings.HasPrefix(w.Type, "NFNL_MSG_BATCH_") || strings.HasSuffix(w.Type, "|NFT_MSG_NEWTABLE") ||
			strings.HasSuffix(w.Type, "|NFT_MSG_NEWCHAIN") || strings.HasSuffix(w.Type, "|NFT_MSG_NEWRULE") {
			held++
			continue
		}
		t.Errorf("written: %s", w.Type)
	}
	if held > 6 {
		t.Errorf("%d messages written to nftables", held)
	}
}
