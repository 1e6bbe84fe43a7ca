// Package apiserver is a real kube-apiserver and etcd on loopback, for the tests of what reads from one.
//
//	objects --Client--> kube-apiserver <--> etcd
//	                         ^
//	svcproxy ----Relay-------+        cuts connections, answers 429 and 503, counts requests
//
// All parts are real: kube-apiserver is built from upstream's modules (see kube/), etcd is Debian's, and
// certificates, tokens and RBAC are those of a cluster. It refuses to be a cluster beyond that: there
// are no controllers, no kubelets and no nodes but the Node objects a test writes. So no
// EndpointSlices appear by themselves, and nothing changes unless a test changes it.
package apiserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// ServiceCIDRs are what cluster IPs are taken from.
const ServiceCIDRs = "10.96.0.0/16,fd00:96::/108"

// guestsHost is this machine as a guest of QEMU's user network sees it, loopback included.
var guestsHost = net.IPv4(10, 0, 2, 2)

// A Cluster is the two servers and what it takes to speak with them.
type Cluster struct {
	Dir       string // certificates, keys, the token file; files of the tests' own may be added
	URL       string // https://127.0.0.1:PORT
	Authority *Authority
	Mint      Mint
	Admin     *Client // may do everything
	Etcd, API *Process

	etcdURL string
}

// AdminToken is in the token file, which only the admin is in: others are service accounts.
const AdminToken = "admin-of-the-tests"

// TempDir makes a folder for New: in memory if it can, since etcd waits for the disk at each write.
func TempDir() (string, error) {
	memory := "/dev/shm"
	if _, err := os.Stat(memory); err != nil {
		memory = ""
	}
	return os.MkdirTemp(memory, "apiserver-")
}

// New builds what is missing, starts etcd and kube-apiserver, and returns when they serve. dir is for
// files that are small and may be lost, as TempDir makes it.
func New(ctx context.Context, dir string) (*Cluster, error) {
	built, err := Build(ctx)
	if err != nil {
		return nil, err
	}
	etcd, err := exec.LookPath("etcd")
	if err != nil {
		return nil, fmt.Errorf("%w: Debian calls it etcd-server (make guest)", err)
	}
	c := &Cluster{Dir: dir}
	if err := c.prepare(etcd, filepath.Join(built, "kube-apiserver")); err != nil {
		return nil, err
	}
	for _, p := range []*Process{c.Etcd, c.API} {
		if err := p.Start(); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// Close ends both servers.
func (c *Cluster) Close() {
	c.API.Kill()
	c.Etcd.Kill()
}

// Empty drops all objects by restarting both servers. For thousands of objects that is many times faster
// than to delete them.
func (c *Cluster) Empty() error {
	c.Close()
	if err := os.RemoveAll(c.path("etcd")); err != nil {
		return err
	}
	if err := c.Etcd.Start(); err != nil {
		return err
	}
	return c.API.Start()
}

func (c *Cluster) prepare(etcd, apiserver string) (err error) {
	if c.Authority, err = NewAuthority("tests"); err != nil {
		return err
	}
	if c.Mint, err = newMint(); err != nil {
		return err
	}
	ports, err := lab.FreePorts(3)
	if err != nil {
		return err
	}
	if err := c.writeFiles(); err != nil {
		return err
	}
	c.URL, c.etcdURL = loopback("https", ports[0]), loopback("http", ports[1])
	c.Admin = NewClient(c.URL, c.Authority.PEM, AdminToken)
	c.Etcd = &Process{Name: "etcd", ready: c.etcdReady, args: []string{etcd,
		"--data-dir", c.path("etcd"), "--name", "tests", "--log-level", "warn",
		"--listen-client-urls", c.etcdURL, "--advertise-client-urls", c.etcdURL,
		"--listen-peer-urls", loopback("http", ports[2]), "--initial-advertise-peer-urls", loopback("http", ports[2]),
		"--initial-cluster", "tests=" + loopback("http", ports[2]),
	}}
	c.API = &Process{Name: "kube-apiserver", ready: c.apiReady, args: append([]string{apiserver}, c.apiArguments(ports[0])...)}
	return nil
}

// apiArguments turns off what slows the start or acts by itself: admission plugins that need
// controllers, request fairness that delays requests, and compaction, which tests do
// themselves.
func (c *Cluster) apiArguments(port int) []string {
	return []string{
		"--etcd-servers=" + c.etcdURL, "--etcd-compaction-interval=0",
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--advertise-address=192.0.2.254", "--endpoint-reconciler-type=none",
		"--tls-cert-file=" + c.path("server.crt"), "--tls-private-key-file=" + c.path("server.key"),
		"--client-ca-file=" + c.path("ca.crt"), "--token-auth-file=" + c.path("tokens.csv"), "--authorization-mode=RBAC",
		"--service-account-issuer=" + issuer,
		"--service-account-key-file=" + c.path("accounts.key"), "--service-account-signing-key-file=" + c.path("accounts.key"),
		"--service-cluster-ip-range=" + ServiceCIDRs,
		"--disable-admission-plugins=ServiceAccount,DefaultStorageClass,StorageObjectInUseProtection,RuntimeClass," +
			"CertificateApproval,CertificateSigning,ClusterTrustBundleAttest,CertificateSubjectRestriction,DefaultIngressClass," +
			"PodSecurity,TaintNodesByCondition,Priority,PersistentVolumeClaimResize,LimitRanger,ResourceQuota," +
			"MutatingAdmissionWebhook,ValidatingAdmissionWebhook,ValidatingAdmissionPolicy",
		"--enable-priority-and-fairness=false", "--profiling=false",
	}
}

func (c *Cluster) path(name string) string { return filepath.Join(c.Dir, name) }

// writeFiles writes what kube-apiserver reads.
func (c *Cluster) writeFiles() error {
	cert, key, err := c.Authority.Server(net.IPv4(127, 0, 0, 1), guestsHost)
	if err != nil {
		return err
	}
	accounts, err := encodeKey(c.Mint.key)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"ca.crt": c.Authority.PEM, "server.crt": cert, "server.key": key, "accounts.key": accounts,
		"tokens.csv": []byte(AdminToken + ",admin,1,system:masters\n"),
	} {
		if err := os.WriteFile(c.path(name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func loopback(scheme string, port int) string { return fmt.Sprintf("%s://127.0.0.1:%d", scheme, port) }

func (c *Cluster) etcdReady() error {
	var health struct{ Health string }
	if err := c.askEtcd(http.MethodGet, "/health", nil, &health); err != nil {
		return err
	}
	if health.Health != "true" {
		return fmt.Errorf("etcd's health is %q", health.Health)
	}
	return nil
}

// apiReady also wants the namespaces that the server makes by itself: svcproxy's account is in one.
func (c *Cluster) apiReady() error {
	for _, path := range []string{"/readyz", "/api/v1/namespaces/default", "/api/v1/namespaces/kube-system"} {
		if _, err := c.Admin.Get(path); err != nil {
			return err
		}
	}
	return nil
}

// Compact makes etcd forget all history before now: who wants to go on from an older revision is told
// that it is gone. kube-apiserver remembers some of it by itself as long as it lives.
func (c *Cluster) Compact() error {
	var status struct {
		Header struct{ Revision json.Number }
	}
	if err := c.askEtcd(http.MethodPost, "/v3/maintenance/status", struct{}{}, &status); err != nil {
		return err
	}
	return c.askEtcd(http.MethodPost, "/v3/kv/compaction", map[string]any{"revision": status.Header.Revision, "physical": true}, nil)
}

func (c *Cluster) askEtcd(method, path string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequest(method, c.etcdURL+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	client := http.Client{Timeout: 10 * time.Second}
	r, err := client.Do(request)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd: %s %s: %s: %s", method, path, r.Status, strings.TrimSpace(string(content)))
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(content, answer)
}

// trust is a TLS configuration for the servers of an authority.
func trust(authority []byte) *tls.Config {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}
