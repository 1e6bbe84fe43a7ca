package daemon

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// The texts are what people search for: see announce.
func TestAnnounce(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(slog.NewTextHandler(&b, nil))
	missing := func(what string) *kernel.MissingError { return &kernel.MissingError{What: what, Hint: "modprobe"} }
	announce(log, "userspace", []Fallback{
		{Mode: "ipvs", Next: "iptables", Why: missing("the kernel has no IPVS")},
		{Mode: "iptables", Next: "userspace", Why: missing("iptables is not installed")},
	})
	for _, want := range []string{
		`level=WARN msg="Can't use ipvs proxier, trying iptables proxier" reason="the kernel has no IPVS" hint=`,
		`level=WARN msg="Can't use iptables proxy, using userspace proxier" reason="iptables is not installed" hint=`,
		`level=INFO msg="Using userspace Proxier."`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
}

func TestModeReason(t *testing.T) {
	var s Setup
	if got := s.modeReason(); got != "the best this kernel can do" {
		t.Error(got)
	}
	s.Fallbacks = []Fallback{{Mode: "ipvs", Next: "iptables", Why: &kernel.MissingError{What: "the kernel has no IPVS"}}}
	if got := s.modeReason(); got != "ipvs cannot be used: the kernel has no IPVS" {
		t.Error(got)
	}
	s.Config.Mode = "iptables"
	if got := s.modeReason(); got != "" {
		t.Error(got)
	}
}
