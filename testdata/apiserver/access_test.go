package apiserver_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	source "github.com/svcproxy/svcproxy/sources/apiserver"
	"github.com/svcproxy/svcproxy/testdata/apiserver"
)

// A server without a trusted certificate is refused. The right authority in the kubeconfig is
// enough for that to end.
func TestWrongAuthority(t *testing.T) {
	c := newCluster(t)
	must(t, c.Admin.Apply(web))
	path := kubeconfig(t, c, c.URL)
	right, err := os.ReadFile(path)
	must(t, err)
	other, err := apiserver.NewAuthority("others")
	must(t, err)
	token, err := c.Token(time.Now().Add(time.Hour))
	must(t, err)
	must(t, apiserver.Kubeconfig{Server: c.URL, Authority: other.PEM, Token: token}.Write(path))

	f := follow(t, source.Options{Kubeconfig: path, ContentType: protobuf})
	f.awaitReason(t, 0, `certificate.*authority`)
	must(t, os.WriteFile(path, right, 0o600))
	f.awaitEndpoint(t, "10.2.1.10:8080")
	f.awaitRecovery(t, 0)
}

// A node's svcproxy may also be known by its certificate.
func TestClientCertificate(t *testing.T) {
	c := newCluster(t)
	must(t, c.Admin.Apply(web))
	path := kubeconfig(t, c, c.URL) // for what the manifest allows
	cert, key, err := c.Authority.Client("svcproxy")
	must(t, err)
	must(t, apiserver.Kubeconfig{Server: c.URL, Authority: c.Authority.PEM, Cert: cert, Key: key}.Write(path))
	f := follow(t, source.Options{Kubeconfig: path, ContentType: protobuf})
	f.awaitEndpoint(t, "10.2.1.10:8080")
}

// An expired token fails new requests, not an open watch. The next token in its file is found
// without being told.
func TestExpiredTokenIsRotated(t *testing.T) {
	c := newCluster(t)
	must(t, c.Admin.Apply(web))
	r := newRelay(t, c)
	path := kubeconfig(t, c, r.URL)
	file := filepath.Join(t.TempDir(), "token")
	rotate := func(end time.Duration) {
		t.Helper()
		token, err := c.Token(time.Now().Add(end))
		must(t, err)
		must(t, os.WriteFile(file+".new", []byte(token), 0o600))
		must(t, os.Rename(file+".new", file))
	}
	rotate(20*time.Second - apiserver.Leeway)
	must(t, apiserver.Kubeconfig{Server: r.URL, Authority: c.Authority.PEM, TokenFile: file}.Write(path))
	f := follow(t, source.Options{Kubeconfig: path, ContentType: protobuf})
	f.awaitEndpoint(t, "10.2.1.10:8080")

	// The server believes a token for ten seconds after it has looked at it.
	mark := f.mark()
	cut := time.AfterFunc(33*time.Second, r.Cut)
	defer cut.Stop()
	f.awaitReason(t, mark, `(?i)401|unauthorized|token`)
	rotate(time.Hour)
	moveWeb(t, c, "10.2.1.11")
	f.awaitEndpoint(t, "10.2.1.11:8080")
	f.awaitRecovery(t, mark)
	f.wantNothingLost(t)
}

// An account that may not read one of the kinds gives no table at all, rather than services without
// endpoints. The reason names the kind, and giving the right is enough.
func TestForbiddenKind(t *testing.T) {
	c := newCluster(t)
	must(t, c.Admin.Apply(web))
	path := kubeconfig(t, c, c.URL)
	whole, err := os.ReadFile(rbac)
	must(t, err)
	without := strings.ReplaceAll(string(whole), "endpointslices", "leases")
	if without == string(whole) {
		t.Fatalf("%s does not name endpointslices", rbac)
	}
	must(t, c.Admin.Apply(without))
	defer c.Admin.Apply(string(whole))

	f := follow(t, source.Options{Kubeconfig: path, ContentType: protobuf})
	f.awaitReason(t, 0, `endpointslices.*(?i)forbidden`)
	must(t, c.Admin.Apply(string(whole)))
	f.awaitEndpoint(t, "10.2.1.10:8080")
	f.awaitRecovery(t, 0)
	all, _ := f.since(0)
	for _, e := range all {
		if !e.none() && !e.has("10.2.1.10:8080") {
			t.Errorf("a table that lacks what could not be read: %d services", e.Services.Len())
		}
	}
}

// A right that is taken away while it runs changes nothing but what is said.
func TestRightTakenAway(t *testing.T) {
	c, r, f := followWeb(t)
	whole, err := os.ReadFile(rbac)
	must(t, err)
	must(t, c.Admin.Apply(strings.ReplaceAll(string(whole), "endpointslices", "leases")))
	defer c.Admin.Apply(string(whole))
	mark := f.mark()
	r.Cut()
	f.awaitReason(t, mark, `endpointslices.*(?i)forbidden`)
	must(t, c.Admin.Apply(string(whole)))
	moveWeb(t, c, "10.2.1.11")
	f.awaitEndpoint(t, "10.2.1.11:8080")
	f.awaitRecovery(t, mark)
	f.wantNothingLost(t)
}
