package daemon

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/announce"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
)

// The number that an earlier run left is read, unless it is none.
func TestNumberInFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "announced")
	if _, known := numberIn(file); known {
		t.Error("a file that does not exist has a number")
	}
	for text, want := range map[string]bool{"broken": false, "": false, "-10\n": true} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if number, known := numberIn(file); known != want || known && number != -10 {
			t.Errorf("%q: %d, %t", text, number, known)
		}
	}
}

// A drain counts without a decision of the loop: the kernel may be unreadable.
func TestDrainReachesKeepalivedWithoutADecision(t *testing.T) {
	file := filepath.Join(t.TempDir(), "announced")
	a, _ := announcing(t, vrrp(file))
	if err := a.daemon.drained.Set(true, health.Author{By: "me"}); err != nil {
		t.Fatal(err)
	}
	a.synced(&proxy.Snapshot{})
	wantNumber(t, file, announce.PriorityWithdrawn)
}

// A file that the configuration does not name any more says that the node is not to have the VIPs.
func TestFormerFileIsWithdrawn(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	a, reload := announcing(t, vrrp(first))
	now := &proxy.Snapshot{Frontends: &frontend.Frontends{}}
	a.synced(now)
	wantNumber(t, first, 0)
	reload(vrrp(second))
	a.synced(now)
	wantNumber(t, first, announce.PriorityWithdrawn)
	wantNumber(t, second, 0)
	reload("# nothing is announced\n")
	a.synced(now)
	wantNumber(t, second, announce.PriorityWithdrawn)
}

// vrrp is a configuration for keepalived.
func vrrp(file string) string {
	return fmt.Sprintf("[ipvs]\nstrictARP = true\n[announce]\nmode = \"vrrp\"\nfile = %q\n", file)
}

// wantNumber wants a file to have a number.
func wantNumber(t *testing.T, file string, want int) {
	t.Helper()
	if text, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(text)) != strconv.Itoa(want) {
		t.Errorf("%s has %q, %v; want %d", filepath.Base(file), text, err, want)
	}
}

// announcing returns an announcer with a configuration, and what gives it another one.
func announcing(t *testing.T, text string) (a *announcer, reload func(string)) {
	t.Helper()
	dir := t.TempDir()
	main := filepath.Join(dir, "svcproxy.toml")
	write := func(text string) {
		if err := os.WriteFile(main, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(text)
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f := config.AddFlags(flags)
	if err := flags.Parse([]string{"--config", main}); err != nil {
		t.Fatal(err)
	}
	cur, err := config.Start(config.Options{Flags: f, Log: slog.New(slog.DiscardHandler), Changed: func(_, _ *config.Setup) {}})
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{current: cur, mode: new(ipvs.Mode), drained: openNodeDrain(dir)}
	return &announcer{daemon: d}, func(text string) {
		write(text)
		if _, err := cur.Reload(); err != nil {
			t.Fatal(err)
		}
	}
}
