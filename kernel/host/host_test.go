package host_test

import (
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

// open opens the kernel of a new namespace.
func open(t testing.TB, o host.Options) *host.Kernel {
	t.Helper()
	o.Names, o.StateDir = kernel.DefaultNames, t.TempDir()
	return openWith(t, o)
}

// openWith is open with names and a state directory.
func openWith(t testing.TB, o host.Options) *host.Kernel {
	t.Helper()
	kerneltest.NewNamespace(t)
	kerneltest.Need(t, kerneltest.IPVS, kerneltest.Dummy, kerneltest.Tool("iptables"))
	k, err := host.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

func TestContract(t *testing.T) {
	for _, backend := range kerneltest.Backends {
		t.Run(backend, func(t *testing.T) {
			kerneltest.UseBackend(t, backend)
			kerneltest.Contract(t, kernel.DefaultNames, func(t testing.TB) kerneltest.Kernel {
				return open(t, host.Options{})
			})
		})
	}
}
