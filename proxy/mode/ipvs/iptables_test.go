package ipvs

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// TestIptablesSave writes every chain with iptables-restore in a new network
// namespace, and expects iptables-save to print it unchanged. Chains are compared as
// text: with one wrong character, svcproxy would rewrite its rules at every sync.
func TestIptablesSave(t *testing.T) {
	if os.Getuid() != 0 {
		lacking(t, "not root")
	}
	every := modetest.Scenario{Name: "every-rule"}
	every.Read(t)
	table, node, config := every.Table, every.Node, every.Config
	// A rule with -m physdev would load br_netfilter into this machine.
	_, err := os.Stat("/proc/sys/net/bridge")
	node.BrNetfilter = err == nil

	variants := map[string]func(*mode.Config){
		"cidr":        func(*mode.Config) {},
		"all":         func(c *mode.Config) { c.MasqueradeAll = true },
		"undetected":  func(c *mode.Config) { c.ClusterCIDRs = nil },
		"bridge":      func(c *mode.Config) { c.DetectLocal, c.BridgeInterface = mode.DetectBridgeInterface, "br0" },
		"prefix":      func(c *mode.Config) { c.DetectLocal, c.InterfaceNamePrefix = mode.DetectInterfaceNamePrefix, "veth" },
		"highest bit": func(c *mode.Config) { c.MasqueradeBit = 31 },
		"lowest bit":  func(c *mode.Config) { c.MasqueradeBit = 0 },
		"no ping":     func(c *mode.Config) { c.VIPPing = false },
		"lean":        func(c *mode.Config) { c.Lean = true },
	}
	ipvsMatch := namespaced("iptables-legacy -A OUTPUT -m ipvs --vproto 6 -j DROP", nil, nil) == nil
	if !ipvsMatch && inGuest() {
		t.Error("no xt_ipvs here")
	}
	for name, vary := range variants {
		if inGuest() && name != "cidr" {
			continue // the guest has the same programs and only differs in kernel modules
		}
		for _, backend := range []string{"nft", "legacy"} {
			t.Run(name+"/"+backend, func(t *testing.T) {
				c := config
				vary(&c)
				state := stateOf(table, node, c)
				if !ipvsMatch {
					dropIPVS(&state)
				}
				for _, got := range restored(t, backend, state) {
					i := slices.IndexFunc(state.Chains, func(c kernel.Chain) bool {
						return c.Family == got.Family && c.Table == got.Table && c.Name == got.Name
					})
					if i < 0 {
						t.Errorf("%s: not ours", got)
					} else if want := state.Chains[i]; got.Rules != want.Rules {
						t.Errorf("%s\n%s\nwrote:\n%s", got, got.Rules, want.Rules)
					}
				}
			})
		}
	}
}

func inGuest() bool { return os.Getenv("SVCPROXY_GUEST") != "" }

// lacking skips a test, except in the guest: it must have everything.
func lacking(t *testing.T, what string) {
	t.Helper()
	if inGuest() {
		t.Fatal(what)
	}
	t.Skip(what)
}

// dropIPVS removes the rules that need xt_ipvs.
func dropIPVS(s *kernel.State) {
	for i := range s.Chains {
		if strings.Contains(s.Chains[i].Rules, "-m ipvs") {
			s.Chains[i].Rules = ""
		}
	}
}

// restored writes a state's sets and chains into a new network namespace and reads
// the chains back.
func restored(t *testing.T, backend string, s kernel.State) []kernel.Chain {
	t.Helper()
	if _, err := exec.LookPath("ip6tables-" + backend + "-restore"); err != nil {
		lacking(t, err.Error())
	}
	sets := kernel.State{Sets: s.Sets, Entries: s.Entries}.String()
	dir := t.TempDir()
	write := func(name, text string) string {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir + "/" + name
	}
	script := "ipset restore <" + write("sets", sets) + " &&\n"
	tools := map[kernel.Family]string{kernel.IPv4: "iptables-" + backend, kernel.IPv6: "ip6tables-" + backend}
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		chains := kernel.State{Chains: slices.DeleteFunc(slices.Clone(s.Chains), func(c kernel.Chain) bool { return c.Family != f })}
		script += tools[f] + "-restore --noflush <" + write(f.String(), chains.String()) + " && echo '#: " +
			strings.TrimSuffix(tools[f], "-"+backend) + "' && " + tools[f] + "-save &&\n"
	}
	var out, errs bytes.Buffer
	if err := namespaced(script+"true", &out, &errs); err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	o, err := kernel.ParseObserved(out.String())
	if err != nil {
		t.Fatalf("%v in:\n%s", err, out.String())
	}
	if len(o.Chains) != len(s.Chains) {
		t.Errorf("%d chains came back of %d", len(o.Chains), len(s.Chains))
	}
	return o.Chains
}

// namespaced runs a shell script in a network namespace of its own.
func namespaced(script string, out, errs *bytes.Buffer) error {
	cmd := exec.Command("unshare", "-n", "sh", "-c", script)
	if out != nil {
		cmd.Stdout, cmd.Stderr = out, errs
	}
	return cmd.Run()
}
