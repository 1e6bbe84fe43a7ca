package host_test

import (
	"slices"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

// The old timeouts outlive the process, and cleanup restores those that still have our
// value.
func TestTimeoutsArePutBack(t *testing.T) {
	o := host.Options{Names: kernel.DefaultNames, StateDir: t.TempDir()}
	k := openWith(t, o)
	kerneltest.Run(t, "ipvsadm", "--set", "1000", "0", "0")
	apply(t, k, kernel.State{Timeouts: kernel.Timeouts{TCP: 1800, TCPFin: 30, UDP: 300}}, read(t, k))
	k.Close()
	kerneltest.Run(t, "ipvsadm", "--set", "0", "40", "0")

	k, err := host.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	have := read(t, k)
	want := []kernel.Saved{{Name: "ipvs.tcpFinTimeout", Before: "120", Ours: "30"}, {Name: "ipvs.tcpTimeout", Before: "1000", Ours: "1800"}}
	if !slices.Equal(have.Saved, want) {
		t.Errorf("saved %v, want %v", have.Saved, want)
	}
	apply(t, k, kernel.State{}, have)
	if have = read(t, k); have.Timeouts != (kernel.Timeouts{TCP: 1000, TCPFin: 40, UDP: 300}) || len(have.Saved) != 1 {
		t.Errorf("after cleanup %v, saved %v", have.Timeouts, have.Saved)
	}
}
