package traffic

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// fleetNodes are the nodes of a fleet.
const fleetNodes = 3

// A fleet is three nodes with svcproxy and BIRD, a router that BIRD tells where each VIP is served, and servers. The
// router spreads flows over the nodes that announce a VIP.
type fleet struct {
	*lab.Fabric
	nodes []*lab.Proxy
	birds [fleetNodes]*exec.Cmd
	dir   string
	bfd   bool // BIRD also asks by BFD whether the other side lives
}

// announcingFleet is what svcproxy.toml of each node says.
const announcingFleet = "announce.mode = \"routes\"\nannounce.holdUp = \"0s\"\nannounce.drainTime = \"1h\"\n"

func newFleet(t *testing.T, servers int, main string, bfd bool) *fleet {
	t.Helper()
	kerneltest.Need(t, kerneltest.Tool("bird"))
	f := &fleet{dir: t.TempDir(), bfd: bfd}
	f.Fabric, f.nodes = newNodes(t, fleetNodes, servers, announcingFleet+main, sharedVIP.Addr(), newVIP.Addr())
	config := "log stderr all;\nrouter id 10.20.0.254;\nprotocol device { }\nprotocol bfd { interface \"*\" { " + timesOfBFD() + " }; }\n" +
		"protocol kernel { merge paths on; ipv4 { export all; }; }\n" +
		"filter vips { if (65535, 0) ~ bgp_community then bgp_local_pref = 0; accept; }\n"
	for n := range fleetNodes {
		config += fmt.Sprintf("protocol bgp node%d {\n\tlocal 10.30.%[1]d.1 as 65000; neighbor 10.30.%[1]d.2 as 65001; %[2]s\n\tipv4 { import filter vips; export none; };\n}\n", n+1, f.session())
	}
	f.bird(t, f.Router, config)
	return f
}

// eager makes sessions come back soon after a link does. BIRD sees at once that a link is down or gone.
const eager = "connect delay time 1; connect retry time 1; error wait time 1, 2;"

// shippedBFD are the times of the shipped configuration. patientBFD replaces them in a guest: they take a machine that pauses
// for a second for a dead one, and emulated machines do so.
const (
	shippedBFD = "min rx interval 300 ms; min tx interval 300 ms; multiplier 3;"
	patientBFD = "min rx interval 1 s; min tx interval 1 s; multiplier 10;"
)

// timesOfBFD are those that this machine keeps.
func timesOfBFD() string {
	if emulated() {
		return patientBFD
	}
	return shippedBFD
}

// session is what a BGP session of a test has besides its ends.
func (f *fleet) session() string {
	if f.bfd {
		return eager + " bfd on;"
	}
	return eager
}

// bird starts BIRD on a host.
func (f *fleet) bird(t *testing.T, on *lab.Host, config string) *exec.Cmd {
	t.Helper()
	file := filepath.Join(f.dir, on.Name)
	must(t, os.WriteFile(file+".conf", []byte(config), 0o644))
	cmd, log := exec.Command("bird", "-f", "-c", file+".conf", "-s", file+".ctl", "-P", file+".pid"), new(lab.Log)
	cmd.Stdout, cmd.Stderr = log, log
	must(t, on.Start(cmd))
	t.Cleanup(func() {
		stopBIRD(cmd)
		if t.Failed() {
			t.Logf("BIRD on %s:\n%s", on.Name, log.String())
		}
	})
	return cmd
}

func stopBIRD(cmd *exec.Cmd) {
	if cmd.ProcessState == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// announce starts BIRD on a node, counted from 1, as the packages ship its configuration.
func (f *fleet) announce(t *testing.T, n int) {
	t.Helper()
	text, err := os.ReadFile(example(t, "bird.conf"))
	must(t, err)
	f.birds[n-1] = f.bird(t, f.Nodes[n-1], strings.NewReplacer(
		"log syslog", "log stderr",
		"192.0.2.1", fmt.Sprintf("10.30.%d.2", n),
		"192.0.2.2", fmt.Sprintf("10.30.%d.1", n),
		shippedBFD, timesOfBFD(),
		"bfd on;", f.session()).Replace(string(text)))
}

// ways are the nodes, counted from 1, to which the router sends flows of the VIP.
func (f *fleet) ways() (ways []int, err error) {
	out, err := f.Router.Run("ip", "route", "show", sharedVIP.Addr().String())
	for line := range strings.Lines(strings.ReplaceAll(out, "nexthop", "\nnexthop")) {
		if strings.Contains(line, "dead") || strings.Contains(line, "linkdown") {
			continue
		}
		if _, rest, ok := strings.Cut(line, "via 10.30."); ok {
			n, _ := strconv.Atoi(rest[:strings.Index(rest, ".")])
			ways = append(ways, n)
		}
	}
	slices.Sort(ways)
	return ways, err
}

// routes waits until the router sends flows to these nodes, and returns how long that took.
func (f *fleet) routes(t *testing.T, when string, want ...int) time.Duration {
	t.Helper()
	began := time.Now()
	if err := lab.Eventually(patience, func() error {
		ways, err := f.ways()
		if err == nil && !slices.Equal(ways, want) {
			err = fmt.Errorf("the router sends flows to the nodes %v, want %v", ways, want)
		}
		return err
	}); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	return time.Since(began).Round(time.Millisecond)
}

// serveEverywhere has every node serve services. Nodes that run already do so while others do not yet.
func (f *fleet) serveEverywhere(t *testing.T, services string) {
	t.Helper()
	for _, p := range f.nodes {
		serveOn(t, p, false, services)
	}
}

// alike waits until every node has the same digest: a removed server drains for a time.
func (f *fleet) alike(t *testing.T, when string) {
	t.Helper()
	if err := lab.Eventually(patience, func() error {
		digests := map[string]bool{}
		for i, p := range f.nodes {
			out, code, err := p.Command("status", "--digest", "-o", "json")
			var d struct{ Digest string }
			if err != nil || code != 0 || json.Unmarshal([]byte(out), &d) != nil || d.Digest == "" {
				return fmt.Errorf("node %d: status --digest: exit code %d, %v\n%s", i+1, code, err, out)
			}
			digests[d.Digest] = true
		}
		if len(digests) != 1 {
			return fmt.Errorf("the nodes have the digests %v", digests)
		}
		return nil
	}); err != nil {
		t.Errorf("%s: %v", when, err)
	}
}

// loses the power of a node: its processes and its kernel's tables are gone, without any stop.
func (f *fleet) losePower(t *testing.T, n int) {
	t.Helper()
	f.nodes[n-1].Kill()
	stopBIRD(f.birds[n-1])
	must(t, f.Lose(n))
}

// boot brings back a node that has lost its power: its files are as they were, but for those in /run.
func (f *fleet) boot(t *testing.T, n int) {
	t.Helper()
	p := f.nodes[n-1]
	must(t, f.Replace(n))
	p.Node = f.Nodes[n-1]
	must(t, os.RemoveAll(filepath.Join(p.Dir, "run")))
	mark := p.Log.Len()
	must(t, p.Start())
	if _, err := p.Wait(mark, lab.Synced); err != nil {
		t.Fatal(err)
	}
}
