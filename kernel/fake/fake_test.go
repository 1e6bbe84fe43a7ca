package fake_test

import (
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

func TestContract(t *testing.T) {
	kerneltest.Contract(t, kernel.DefaultNames, func(testing.TB) kerneltest.Kernel {
		k := fake.New(kernel.DefaultNames, kernel.Node{}, kernel.State{})
		k.Schedulers = map[string]bool{"rr": true, "wrr": true, "wlc": true}
		return k
	})
}
