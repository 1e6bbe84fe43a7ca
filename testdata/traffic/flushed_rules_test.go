package traffic

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

// seldom has svcproxy look at the whole kernel too seldom for a test: what is repaired was noticed by itself.
const seldom = "ipvs.syncPeriod = \"20m\"\n"

// Another program removes all rules of nftables, as a restart of a firewall does. They come back at once, one event
// names the program, and masqueraded connections go on. A program that changes rules of its own causes no write and no
// event.
func TestFlushedRulesetIsRepairedAtOnce(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("nft"))
	kerneltest.UseBackend(t, "nft")
	n := newNode(t, seldom)
	n.start(t, web)
	load := newLoad(t)
	for i := range 6 {
		to := [...]string{"198.51.100.80:80", "[2001:db8:80::80]:80"}[i%2]
		c, err := n.Client.Dial("tcp", netip.MustParseAddrPort(to))
		must(t, err)
		t.Cleanup(func() { c.Close() })
		load.add("masqueraded "+to, func() error { _, err := c.Ask(); return err })
	}
	file := filepath.Join(t.TempDir(), "nftables.conf")
	const ruleset = "flush ruleset\ntable inet filter { chain input { type filter hook input priority 0; }; }\n"
	must(t, os.WriteFile(file, []byte(ruleset), 0o600))
	// The look at the node that follows a start is over then. It would repair first, and not know who changed the rules.
	n.says(t, 0, "reload --wait")
	for i, command := range []string{"nft flush ruleset", "nft -f " + file} {
		load.goOn(t, 20)
		mark, began := n.Log.Len(), time.Now()
		words := strings.Fields(command)
		n.tool(t, words[0], words[1:]...)
		n.synced(t, mark)
		took := time.Since(began)
		t.Logf("%s: repaired after %v", command, took)
		if !emulated() && took > generous {
			t.Errorf("%s: repaired after %v", command, took)
		}
		load.goOn(t, 20)
		n.wantWeb(t, command)
		if repairs := n.repairs(t); len(repairs) != i+1 || !byNFT.MatchString(repairs[i]) {
			t.Errorf("%s: events\n%s", command, strings.Join(repairs, "\n"))
		}
	}
	before := len(n.repairs(t))
	for j := range 5 {
		n.tool(t, "nft", "add", "table", "inet", fmt.Sprint("others", j))
	}
	n.wantWeb(t, "beside another program")
	if repairs := n.repairs(t); len(repairs) != before {
		t.Errorf("another program changed its own rules:\n%s", strings.Join(repairs, "\n"))
	}
	load.wantServed(t)
	must(t, n.Stop())
	if out := n.tool(t, "nft", "list", "tables"); strings.Contains(out, "inet svcproxy") {
		t.Errorf("after the end:\n%s", out)
	}
}

var byNFT = regexp.MustCompile(`after nft \(pid \d+\) changed rules: `)

// repairs returns the events about what other programs changed.
func (n node) repairs(t *testing.T) (list []string) {
	t.Helper()
	out, code := n.asks(t, "events")
	if code != 0 {
		t.Fatalf("events: exit code %d\n%s", code, out)
	}
	for line := range strings.Lines(out) {
		if strings.Contains(line, "  drift ") {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}
