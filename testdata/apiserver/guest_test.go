package apiserver_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/apiserver"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// The kernel is in the guest; etcd and kube-apiserver stay on the host. Under emulation they were not
// ready after minutes of guest time, and here they are needed anyway by all other tests.

// What `make` builds.
const (
	svcproxy = "../../bin/svcproxy"
	guest    = "../../bin/guest"
)

// A visit is what the host tells a test that runs in the guest.
type visit struct {
	Server     string // the API server as seen from the guest
	Authority  []byte
	Kubeconfig string // of svcproxy's account
	Services   int    // how many fillers there are

	admin *apiserver.Client // writes objects from the guest
}

const visitVariable = "SVCPROXY_API_VISIT"

// visiting is what the host has told us, and nil on the host.
func visiting(t *testing.T) *visit {
	t.Helper()
	path := os.Getenv(visitVariable)
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	must(t, err)
	v := new(visit)
	must(t, json.Unmarshal(text, v))
	v.admin = apiserver.NewClient(v.Server, v.Authority, apiserver.AdminToken)
	return v
}

// runInGuest runs the calling test once more, in the guest, while the servers serve here with so many
// fillers, and passes on how it ended.
func runInGuest(t *testing.T, c *apiserver.Cluster, services int) {
	t.Helper()
	for _, program := range []string{svcproxy, guest} {
		if _, err := os.Stat(program); err != nil {
			t.Fatalf("%v: make build guest", err)
		}
	}
	v := visit{Server: fromGuest(c.URL), Authority: c.Authority.PEM, Services: services}
	v.Kubeconfig = kubeconfig(t, c, v.Server)
	text, err := json.Marshal(v)
	must(t, err)
	path := filepath.Join(t.TempDir(), "visit")
	must(t, os.WriteFile(path, text, 0o600))

	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), guest, "run", "--net", "--limit=15m", "--", self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=12m")
	cmd.Env = append(os.Environ(), visitVariable+"="+path)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("in the guest: %v", err)
	}
	t.Logf("the guest said:\n%s", out)
}

// fromGuest is where the guest finds a server on the host's loopback.
func fromGuest(url string) string { return strings.Replace(url, "127.0.0.1", "10.0.2.2", 1) }

// A node is a lab whose node has a svcproxy and a link of its own to the API server.
type node struct {
	*lab.Lab
	*lab.Proxy
}

func (v *visit) newNode(t *testing.T) node {
	t.Helper()
	kerneltest.Need(t, kerneltest.Root, kerneltest.IPVS, kerneltest.Dummy)
	l, err := lab.New()
	must(t, err)
	// The test itself keeps eth0.
	kerneltest.Run(t, "ip", "link", "add", "link", "eth0", "name", "mgmt", "type", "macvlan", "mode", "bridge")
	must(t, l.Node.Adopt("mgmt"))
	must(t, l.Node.IP("link set mgmt up", "addr add 10.0.2.16/24 dev mgmt"))
	binary, err := filepath.Abs(svcproxy)
	must(t, err)
	p, err := lab.NewProxy(l.Node, binary, t.TempDir(), "")
	must(t, err)
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("svcproxy's log:\n%s", tail(p.Log.String(), 60))
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return node{l, p}
}

// settings are of both svcproxys that are to do the same: files have another scheduler than objects otherwise.
const settings = "ipvs.scheduler = \"wrr\"\nhostnameOverride = \"n1\"\nnode.zone = \"a\"\n"

// fromAPI starts svcproxy on the API server alone, and waits for its first sync.
func (n node) fromAPI(t *testing.T, v *visit, more string) {
	t.Helper()
	must(t, n.Serve("services = {} # they are the API server's\n"))
	must(t, n.Configure(fmt.Sprintf("%ssources.apiserver.enabled = true\nclientConnection.kubeconfig = %q\n%s", settings, v.Kubeconfig, more)))
	n.run(t)
}

// fromFile starts svcproxy on services.toml alone, and waits for its first sync.
func (n node) fromFile(t *testing.T, services string) {
	t.Helper()
	must(t, n.Serve(services))
	must(t, n.Configure(settings))
	n.run(t)
}

func (n node) run(t *testing.T) {
	t.Helper()
	mark := n.Log.Len()
	must(t, n.Start())
	_, err := n.Wait(mark, lab.Synced)
	must(t, err)
}

// awaitReading waits until the node's kernel holds this.
func (n node) awaitReading(t *testing.T, want lab.Reading) {
	t.Helper()
	must(t, lab.Eventually(time.Minute, func() error {
		got, err := n.Lab.Node.Read()
		if err != nil {
			return err
		}
		if d := lab.Diff(want, got); d != "" {
			return fmt.Errorf("the kernel does not hold the same:\n%s", d)
		}
		return nil
	}))
}
