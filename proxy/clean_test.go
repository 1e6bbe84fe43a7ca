package proxy_test

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/proxy"
)

// restless is a kernel in which another program puts back what is removed.
type restless struct{ *fake.Kernel }

func (restless) Apply(context.Context, kernel.Plan) error { return nil }

func TestCleanEnds(t *testing.T) {
	leftover := kernel.State{Links: []kernel.Link{{Name: names.Device, Type: "dummy"}}}
	k := fake.New(names, kernel.Node{}, leftover)
	clean := func(k proxy.Kernel, dry bool) error {
		return proxy.Clean(t.Context(), k, proxy.Cleaning{Dry: dry}, func(kernel.Plan) error { return nil })
	}
	if err := clean(restless{k}, false); err == nil || !strings.Contains(err.Error(), "come back") {
		t.Errorf("cleanup of what comes back: %v", err)
	}
	k.Fail = func(kernel.Op) error { return syscall.EBUSY }
	if err := clean(k, false); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Errorf("cleanup of what cannot be removed: %v", err)
	}
	k.Fail = nil
	if err := clean(k, true); err != nil || len(k.State().Links) != 1 {
		t.Errorf("dry run: %v, links %v", err, k.State().Links)
	}
	if err := clean(k, false); err != nil || len(k.State().Links) != 0 {
		t.Errorf("cleanup: %v, links %v", err, k.State().Links)
	}
}
