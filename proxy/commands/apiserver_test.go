//go:build !noapiserver

package commands

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/proxy/cli"
)

// serveLists is an API server with these services, in JSON, and with no other objects. Its watches have no events.
func serveLists(t *testing.T, services string) (url string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if q.URL.Query().Get("watch") == "true" {
			w.(http.Flusher).Flush()
			<-q.Context().Done()
			return
		}
		kind, version, items := "ServiceList", "v1", services
		switch filepath.Base(q.URL.Path) {
		case "endpointslices":
			kind, version, items = "EndpointSliceList", "discovery.k8s.io/v1", ""
		case "nodes":
			kind, items = "NodeList", ""
		}
		fmt.Fprintf(w, `{"kind": %q, "apiVersion": %q, "metadata": {"resourceVersion": "1"}, "items": [%s]}`, kind, version, items)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// atAPIServer writes a configuration with a kubeconfig for a server, and returns its directory.
func atAPIServer(t *testing.T, url string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"svcproxy.toml": fmt.Sprintf("runtimeDir = \"%[1]s/run\"\nstateDir = \"%[1]s/state\"\nsources.file.paths = [\"%[1]s/*.none\"]\n"+
			"[clientConnection]\nkubeconfig = \"%[1]s/kubeconfig\"\ncontentType = \"application/json\"\n", dir),
		"kubeconfig": fmt.Sprintf("clusters: [ { name: c, cluster: { server: %q } } ]\n"+
			"contexts: [ { name: x, context: { cluster: c } } ]\ncurrent-context: x\n", url),
		"serving.state": "create KUBE-VIRTUAL-SERVER hash:ip,port family inet hashsize 1024 maxelem 65536\n" +
			"add KUBE-VIRTUAL-SERVER 10.96.0.30,tcp:80\n-A -t 10.96.0.30:80 -s rr\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// runAt runs a command with the configuration of a directory.
func runAt(t *testing.T, dir string, command func(*Env) cli.Command, argv ...string) (out, said string, code int) {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var warned strings.Builder
	e := &Env{Out: f, Err: &warned, Version: "1"}
	c := command(e)
	p := cli.Program{Name: "svcproxy", Flags: e.Flags, Near: func(string, []string) string { return "" }, Commands: []cli.Command{c}}
	failed := p.Run(t.Context(), append([]string{c.Name, "--config", filepath.Join(dir, "svcproxy.toml")}, argv...), f)
	text, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text), warned.String() + strings.Join(cli.Lines(failed), "\n"), cli.Code(failed)
}

// TestPlanOfAnEmptyAPIServer: a plan for a list that a daemon would not believe is an error. It would remove everything.
func TestPlanOfAnEmptyAPIServer(t *testing.T) {
	dir := atAPIServer(t, serveLists(t, ""))
	out, said, code := runAt(t, dir, Plan, "--state", filepath.Join(dir, "serving.state"))
	for _, want := range []string{"no plan can be made", "incomplete", "services: the API server has none", "endpointslices: the API server has none"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in %q", want, said)
		}
	}
	if out != "" || code != cli.Failed {
		t.Errorf("exit code %d, and a plan:\n%s", code, out)
	}
}

// TestPlanNamesWhatIsLeftOut: a plan without a daemon warns of services of the API server that are not served.
func TestPlanNamesWhatIsLeftOut(t *testing.T) {
	service := func(name, ip string) string {
		return fmt.Sprintf(`{"metadata": {"name": %q, "namespace": "default"}, "spec": {"type": "ClusterIP", "clusterIP": %[2]q, "clusterIPs": [%[2]q],
			"ports": [{"port": 80, "protocol": "TCP"}]}}`, name, ip)
	}
	dir := atAPIServer(t, serveLists(t, service("bad", "127.0.0.1")+","+service("web", "10.96.0.20")))
	// Slices that suddenly are none are not believed at the start either.
	main := filepath.Join(dir, "svcproxy.toml")
	text, err := os.ReadFile(main)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(main, append(text, "[sources.apiserver]\nemptyGrace = \"0s\"\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	out, said, code := runAt(t, dir, Plan, "--state", filepath.Join(dir, "serving.state"))
	if code != cli.OK || !strings.Contains(out, "+ -A -t 10.96.0.20:80 -s rr") || !strings.Contains(out, "- -D -t 10.96.0.30:80") {
		t.Errorf("exit code %d, %s\n%s", code, said, out)
	}
	if !strings.Contains(said, "default/bad: VIP 127.0.0.1 is a loopback address") {
		t.Errorf("no warning of the service that is left out: %q", said)
	}
}

// TestCheckKubeconfig: a kubeconfig that cannot be used is a fault of the configuration. One that is not there, like a file
// that it names, is one of this host. Files that are named are checked without it.
func TestCheckKubeconfig(t *testing.T) {
	dir := atAPIServer(t, "http://127.0.0.1:1")
	if _, said, code := runAt(t, dir, Check); code != cli.OK {
		t.Errorf("a good kubeconfig, without an API server: exit code %d: %s", code, said)
	}
	path := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(path, []byte("users: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, said, code := runAt(t, dir, Check); code != cli.Config || !strings.Contains(said, "kubeconfig "+path+": ") {
		t.Errorf("a broken kubeconfig: exit code %d: %s", code, said)
	}
	pem := filepath.Join(dir, "broken.pem")
	if err := os.WriteFile(pem, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	const v1 = "apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never"
	for user, want := range map[string]int{
		"tokenFile: /no/token":                                    cli.Degraded,
		"client-certificate: /no/cert, client-key: /no/key":       cli.Degraded,
		"client-certificate: " + pem + ", client-key: /no/key":    cli.Degraded,
		"client-certificate: /no/cert":                            cli.Config,
		"exec: {command: /no/plugin, " + v1 + "}":                 cli.Degraded,
		"exec: {command: /no/plugin, apiVersion: example.org/v1}": cli.Config,
	} {
		text := "clusters: [ { name: c, cluster: { server: \"https://127.0.0.1:1\" } } ]\n" +
			"users: [ { name: u, user: { " + user + " } } ]\n" +
			"contexts: [ { name: x, context: { cluster: c, user: u } } ]\ncurrent-context: x\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, said, code := runAt(t, dir, Check); code != want || strings.HasPrefix(out, "ok: ") != (want == cli.Degraded) {
			t.Errorf("%s: exit code %d: %s%s", user, code, out, said)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	out, said, code := runAt(t, dir, Check)
	if code != cli.Degraded || !strings.HasPrefix(out, "ok: ") || !strings.Contains(said, "kubeconfig "+path+": no such file") ||
		!strings.Contains(said, "a path in kube-proxy's pod") {
		t.Errorf("no kubeconfig: exit code %d: %s%s", code, out, said)
	}
	named := filepath.Join(dir, "services.toml")
	if err := os.WriteFile(named, []byte("services = {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, said, code := runAt(t, dir, Check, named); code != cli.OK {
		t.Errorf("a file that is named: exit code %d: %s", code, said)
	}
	out, said, code = runAt(t, dir, Plan, "--state", filepath.Join(dir, "serving.state"))
	if out != "" || code != cli.Failed || !strings.Contains(said, "kubeconfig "+path+": no such file") {
		t.Errorf("plan without a kubeconfig: exit code %d: %s\n%s", code, said, out)
	}
}
