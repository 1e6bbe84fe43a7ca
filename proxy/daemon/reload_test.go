package daemon

import (
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/cli"
)

// A reload returns when the new content is served, and names what was refused.
func TestReload(t *testing.T) {
	n := start(t)
	n.write(mainFile + strings.Replace(web1, "10.2.0.1", "10.2.0.2", 1) + "[logging]\nverbosity = 4\n")
	if done, err := n.client.Reload(t.Context(), true); err != nil || done.Err() != nil {
		t.Error(done, err)
	}
	if !strings.Contains(n.kernel.State().String(), "10.2.0.2:80") {
		t.Errorf("reloaded, but not served:\n%s", n.kernel.State())
	}
	n.write("hostnameOverride = \"x\"\n" + mainFile + web1)
	if done, err := n.client.Reload(t.Context(), true); err != nil || len(done.Restart) != 1 || !strings.Contains(done.Restart[0], "hostnameOverride") {
		t.Error(done, err)
	}
	n.write(mainFile + "frob = 1\n" + web1)
	done, err := n.client.Reload(t.Context(), true)
	if err != nil || len(done.Rejected) != 1 || !strings.Contains(done.Rejected[0], `unknown key "ipvs.frob"`) && !strings.Contains(done.Rejected[0], `"frob"`) {
		t.Error(done, err)
	}
	if st, err := n.client.Status(t.Context(), true); err != nil || st.Daemon.Config.Error == "" || len(st.Services) != 1 {
		t.Error(st, err)
	}
	_, site := n.console.listeners()
	if _, text := n.get(site, "/metrics"); !strings.Contains(text, `svcproxy_config_reloads_total{result="refused"} 1`) {
		t.Error("a refused reload is not counted")
	}
}

// A reload names what is not served: what the kernel refuses and what another program
// has. It also has the warnings.
func TestReloadIsHonest(t *testing.T) {
	n := start(t)
	foreign := kernel.Virtual{Key: kernel.VirtualAt(netip.MustParseAddrPort("10.96.0.9:80"), kernel.TCP), Scheduler: "sed", Netmask: 32}
	if err := n.kernel.Apply(t.Context(), kernel.Plan{Ops: []kernel.Op{{Verb: kernel.Add, Object: foreign}}}); err != nil {
		t.Fatal(err)
	}
	n.write(mainFile + web1 + strings.NewReplacer("web", "other", "10.96.0.1", "10.96.0.9").Replace(web1))
	done, err := n.client.Reload(t.Context(), true)
	if err != nil || len(done.Conflicts) != 1 || !strings.Contains(done.Conflicts[0], "10.96.0.9:80") || cli.Code(done.Err()) != cli.Degraded {
		t.Errorf("a conflict: %+v, %v", done, err)
	}
	if len(done.Warnings) != 1 || done.Warnings[0] != "a warning" {
		t.Errorf("warnings %q", done.Warnings)
	}
	var refuse atomic.Bool
	n.refuse = func(o kernel.Op) error {
		if refuse.Load() && o.Object.Kind() == kernel.KindReal {
			return syscall.EPERM
		}
		return nil
	}
	refuse.Store(true)
	n.write(mainFile + strings.Replace(web1, "10.2.0.1", "10.2.0.7", 1))
	done, err = n.client.Reload(t.Context(), true)
	if err != nil || len(done.Failed) == 0 || !strings.Contains(done.Failed[0], "10.2.0.7:80") || cli.Code(done.Err()) != cli.Failed {
		t.Errorf("a sync that fails: %+v, %v", done, err)
	}
	refuse.Store(false)
	if done, err = n.client.Reload(t.Context(), true); err != nil || done.Err() != nil {
		t.Errorf("after the failure: %+v, %v", done, err)
	}
}
