package ipvs

import (
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

// Each network namespace has its own timeouts, 0 leaves a timeout alone, and ipvsadm reads the same
// values. Reading is one system call. Writing goes through moby/ipvs.
func TestKernelTimeouts(t *testing.T) {
	table := open(t)
	check := func(want kernel.Timeouts, said string) {
		t.Helper()
		before := table.Stats()
		got, err := table.Timeouts()
		if err != nil || got != want {
			t.Errorf("timeouts %v and %v, want %v", got, err, want)
		}
		if s := table.Stats(); s.Getsockopts-before.Getsockopts != 1 || s.Sends != before.Sends {
			t.Errorf("a reading cost %+v after %+v", s, before)
		}
		if out := kerneltest.Run(t, "ipvsadm", "-L", "--timeout"); !strings.Contains(out, said) {
			t.Errorf("ipvsadm says %q, want %s", out, said)
		}
	}
	check(kernel.LinuxTimeouts, "900 120 300")
	if err := table.SetTimeouts(kernel.Timeouts{TCP: 1800, UDP: 60}); err != nil {
		t.Fatal(err)
	}
	check(kernel.Timeouts{TCP: 1800, TCPFin: 120, UDP: 60}, "1800 120 60")
	if err := table.SetTimeouts(kernel.Timeouts{TCP: 1<<31 - 1, UDP: 61}); err == nil || !strings.Contains(err.Error(), "longest") {
		t.Errorf("more than the kernel can count: %v", err)
	}
	kerneltest.Run(t, "ipvsadm", "--set", "0", "7", "0")
	check(kernel.Timeouts{TCP: 1800, TCPFin: 7, UDP: 60}, "1800 7 60")

	t.Run("another namespace", func(t *testing.T) {
		if got, err := open(t).Timeouts(); err != nil || got != kernel.LinuxTimeouts {
			t.Errorf("timeouts %v and %v", got, err)
		}
	})
}
