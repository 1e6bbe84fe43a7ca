package daemon

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/announce"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
)

// A restart does not raise the number for keepalived at once, because nobody knows yet who is up. While a table may be
// missing it only falls. What a drain wrote is replaced at any time.
func TestNumberForKeepalived(t *testing.T) {
	start := time.Now()
	for _, c := range []struct {
		file  string // content; "" = there is none
		next  int
		hold  bool
		after time.Duration
		keeps bool
	}{
		{"", 0, false, 0, false},
		{"broken", 0, false, 0, false},
		{"-10\n", 0, false, time.Second, true},
		{"-10\n", 0, false, time.Minute, false},
		{"-10\n", 0, true, time.Minute, true},
		{"-10\n", -20, false, time.Second, false},
		{"0\n", -20, true, time.Second, false},
		{"0\n", announce.PriorityWithdrawn, true, time.Second, false},
		{fmt.Sprintln(announce.PriorityWithdrawn), 0, true, time.Second, false},
	} {
		var n number
		file := filepath.Join(t.TempDir(), "announced")
		if c.file != "" {
			if err := os.WriteFile(file, []byte(c.file), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		n.load(file, start.Add(5*time.Second))
		if got := n.keeps(c.next, c.hold, start.Add(c.after)); got != c.keeps {
			t.Errorf("%q, then %d after %s, hold %t: kept %t", c.file, c.next, c.after, c.hold, got)
		}
	}
}

// A drain counts without a decision of the loop: the kernel may be unreadable.
func TestDrainReachesKeepalivedWithoutADecision(t *testing.T) {
	dir := t.TempDir()
	file, main := filepath.Join(dir, "announced"), filepath.Join(dir, "svcproxy.toml")
	if err := os.WriteFile(main, fmt.Appendf(nil, "[ipvs]\nstrictARP = true\n[announce]\nmode = \"vrrp\"\nfile = %q\n", file), 0o644); err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f := config.AddFlags(flags)
	if err := flags.Parse([]string{"--config", main}); err != nil {
		t.Fatal(err)
	}
	cur, err := config.Start(config.Options{Flags: f, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{current: cur, mode: new(ipvs.Mode), drained: openNodeDrain(dir)}
	a := &announcer{daemon: d}
	if err := d.drained.Set(true, health.Author{By: "me"}); err != nil {
		t.Fatal(err)
	}
	a.synced(&proxy.Snapshot{})
	if text, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(text)) != strconv.Itoa(announce.PriorityWithdrawn) {
		t.Errorf("announce.file has %q, %v; want %d", text, err, announce.PriorityWithdrawn)
	}
}
