package health

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// TestFromKernel reads a kernel given as "VIP:PORT/PROTO SCHEDULER ENDPOINT=WEIGHT...". Rules have no scheduler.
func TestFromKernel(t *testing.T) {
	const (
		tcp  = "service web check=tcp\nport http TCP 80\nendpoint 10.2.0.1 http=8080\nendpoint 10.2.0.2 http=8080\n"
		cut  = "service web check=tcp onDown=cut\nport http TCP 80\nendpoint 10.2.0.1 http=8080\nendpoint fd00::1 http=8080\n"
		odd  = "service web check=tcp\nport http TCP 80\nendpoint 10.2.0.1 http=8080 backup\nendpoint 10.2.0.2 http=8080 weight=0\nendpoint 10.2.0.3 http=8080 notready\n"
		near = "service web check=tcp distribution=PreferSameNode\nport http TCP 80\nendpoint 10.2.0.1 http=8080\nendpoint 10.2.0.2 http=8080\n"
		port = "service web check=tcp checkPort=admin\nport http TCP 80\nport admin TCP 81\nendpoint 10.2.0.1 http=8080 admin=8081\n"
	)
	for name, c := range map[string]struct{ table, kernel, override, want string }{
		"empty":           {tcp, "", "", ""},
		"as it is":        {tcp, "10.96.0.1:80/tcp rr 10.2.0.1:8080=0 10.2.0.2:8080=3", "", "10.2.0.1:8080 down, 10.2.0.2:8080 up"},
		"new endpoint":    {tcp, "10.96.0.1:80/tcp rr 10.2.0.1:8080=1", "", "10.2.0.1:8080 up"},
		"another service": {tcp, "10.96.0.2:80/tcp rr 10.2.0.1:8080=0", "", ""},
		"node port":       {tcp, "192.0.2.7:30080/tcp rr 10.2.0.1:8080=0 10.2.0.2:8080=1", "", "10.2.0.1:8080 down, 10.2.0.2:8080 up"},
		"two virtuals":    {tcp, "10.96.0.1:80/tcp rr 10.2.0.1:8080=0;192.0.2.7:30080/tcp rr 10.2.0.1:8080=1", "", "10.2.0.1:8080 up"},
		"drained":         {tcp, "10.96.0.1:80/tcp rr 10.2.0.1:8080=0 10.2.0.2:8080=0", "10.2.0.1", "10.2.0.2:8080 down"},
		"cut":             {cut, "10.96.0.1:80/tcp rr", "", "10.2.0.1:8080 down"},
		"hash":            {tcp, "10.96.0.1:80/tcp dh 10.2.0.2:8080=1", "", "10.2.0.1:8080 down, 10.2.0.2:8080 up"},
		"not by health":   {odd, "10.96.0.1:80/tcp rr 10.2.0.1:8080=0 10.2.0.2:8080=0 10.2.0.3:8080=0", "", ""},
		"rules":           {tcp, "10.96.0.1:80/tcp rules 10.2.0.2:8080=1", "", "10.2.0.1:8080 down, 10.2.0.2:8080 up"},
		"rules refuse":    {tcp, "10.96.0.1:80/tcp rules", "", "10.2.0.1:8080 down, 10.2.0.2:8080 down"},
		"rules drained":   {tcp, "10.96.0.1:80/tcp rules 10.2.0.2:8080=1", "10.2.0.1", "10.2.0.2:8080 up"},
		"rules remain":    {tcp, "10.96.0.1:80/tcp rr 10.2.0.1:8080=0 10.2.0.2:8080=0;10.96.0.1:80/tcp rules 10.2.0.1:8080=1", "", "10.2.0.1:8080 up, 10.2.0.2:8080 down"},
		"rules, standby":  {odd, "10.96.0.1:80/tcp rules", "", ""},
		"elsewhere":       {near, "10.96.0.1:80/tcp rules 10.2.0.2:8080=1", "", "10.2.0.2:8080 up"},
		"other port":      {port, "10.96.0.1:80/tcp rr 10.2.0.1:8080=0;10.96.0.1:81/tcp rr 10.2.0.1:8081=0", "", "10.2.0.1:8081 down"},
	} {
		table := readTable(t, c.table)
		table.Services.At(0).Type, table.Services.At(0).Ports[0].NodePort = sources.NodePort, 30080
		var o Overrides
		if c.override != "" {
			o = Overrides{order(t, c.override, Drain)}
		}
		virtuals, reals := readKernel(t, c.kernel)
		states := FromKernel(table, o, nil, virtuals, kernel.RealsOf(reals))
		var got []string
		for _, target := range Targets(table) {
			if s, ok := states[target.Key]; ok {
				got = append(got, fmt.Sprintf("%s %s", target.Addr, s.Phase))
			}
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
}

func readKernel(t *testing.T, text string) (virtuals []kernel.Virtual, reals []kernel.Real) {
	for line := range strings.SplitSeq(text, ";") {
		w := strings.Fields(line)
		if len(w) == 0 {
			continue
		}
		addr, proto, _ := strings.Cut(w[0], "/")
		p, err := kernel.ParseProto(proto)
		if err != nil {
			t.Fatal(err)
		}
		key := kernel.VirtualAt(netip.MustParseAddrPort(addr), p)
		virtuals = append(virtuals, kernel.Virtual{Key: key, Scheduler: strings.TrimPrefix(w[1], "rules")})
		for _, r := range w[2:] {
			at, weight, _ := strings.Cut(r, "=")
			real := kernel.RealKey{Virtual: key, Addr: netip.MustParseAddrPort(at)}
			reals = append(reals, kernel.Real{Key: real, Weight: uint32(number(t, weight))})
		}
	}
	return virtuals, reals
}
