//go:build !noapiserver

package apiserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/svcproxy/svcproxy/sources"
)

// authority signs certificates.
type authority struct {
	*testing.T
	is  *x509.Certificate
	key *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{T: t}
	a.key = a.newKey()
	a.is = &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	a.is.Raw = a.sign(a.is, a.key)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.Fatal(err)
	}
	return key
}

func (a *authority) sign(c *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	der, err := x509.CreateCertificate(rand.Reader, c, a.is, key.Public(), a.key)
	if err != nil {
		a.Fatal(err)
	}
	return der
}

func (a *authority) pool() *x509.CertPool {
	c, err := x509.ParseCertificate(a.is.Raw)
	if err != nil {
		a.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(c)
	return pool
}

// client returns the PEM of a client certificate and its key.
func (a *authority) client(until time.Time) (certificate, key string) {
	k := a.newKey()
	der := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: until, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, k)
	secret, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		a.Fatal(err)
	}
	return toPEM("CERTIFICATE", der), toPEM("EC PRIVATE KEY", secret)
}

func toPEM(what string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: what, Bytes: der}))
}

// TestWrongCA: the connection is refused until the CA file is corrected, without a restart.
func TestWrongCA(t *testing.T) {
	var right string
	r := start(t, Options{}, func(r *rig) {
		whole(r)
		right = r.ca()
		r.write("ca.crt", toPEM("CERTIFICATE", newAuthority(t).is.Raw))
	})
	r.complains("is not trusted", "certificate-authority")
	r.write("ca.crt", right)
	r.want(wholeTable)
}

// lock refuses requests without the returned token.
func (r *rig) lock() *atomic.Value {
	var valid atomic.Value
	valid.Store("first")
	r.intercept(func(w http.ResponseWriter, q *http.Request) bool {
		if q.Header.Get("Authorization") == "Bearer "+valid.Load().(string) {
			return false
		}
		fail(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
		return true
	})
	return &valid
}

// TestRotation: credentials expire and are replaced in the same place.
func TestRotation(t *testing.T) {
	plugin := func(r *rig, token string) {
		r.write("credential", `{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": {"token": "`+token+`"}}`)
	}
	for _, c := range []struct {
		name           string
		early          bool // they are there before the old ones are refused
		prepare, renew func(r *rig)
	}{
		{"token file", false, func(*rig) {}, func(r *rig) { r.write("token", "second") }},
		{"token file in time", true, func(*rig) {}, func(r *rig) { r.write("token", "second") }},
		{"kubeconfig", false, func(r *rig) { r.user("token: first") }, func(r *rig) { r.user("token: second") }},
		{"kubeconfig in time", true, func(r *rig) { r.user("token: first") }, func(r *rig) { r.user("token: second") }},
		{"exec plugin", false, func(r *rig) {
			plugin(r, "first")
			r.user("exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: cat, args: [" + r.path("credential") + "]}")
		}, func(r *rig) { plugin(r, "second") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var valid *atomic.Value
			r := start(t, Options{}, func(r *rig) {
				whole(r)
				valid = r.lock()
				c.prepare(r)
			})
			r.want(wholeTable)
			valid.Store("second")
			if c.early {
				c.renew(r)
			}
			r.cutWatches()
			if !c.early {
				r.complains("401 Unauthorized")
			}
			r.put(svc("new", "10.96.0.3"))
			if !c.early {
				c.renew(r)
			} else if e := <-r.emits; e.err != nil {
				t.Errorf("an outage is said: %s", e)
			} else if e.String() == "db, new, web 10.2.0.1" {
				return
			}
			r.want("db, new, web 10.2.0.1")
		})
	}
}

// TestKubeconfigReplacedWhileRead: whenever the file is replaced during a renewal, the next renewal at the latest
// has the new credentials.
func TestKubeconfigReplacedWhileRead(t *testing.T) {
	for name, early := range map[string]bool{"before its sum": true, "after its sum": false} {
		t.Run(name, func(t *testing.T) {
			r := &rig{T: t, api: newAPI(t, nil), dir: t.TempDir()}
			r.write("ca.crt", r.ca())
			r.user("token: first")
			valid := r.lock()
			c, err := connect(Options{Kubeconfig: r.path("kubeconfig"), QPS: -1})
			if err != nil {
				t.Fatal(err)
			}
			defer c.close()
			replace := sync.OnceFunc(func() { r.user("token: second") })
			c.read = func(path string) ([]byte, error) {
				if early {
					replace()
				}
				data, err := os.ReadFile(path)
				replace()
				return data, err
			}
			for range 2 {
				if _, err := c.renew(); err != nil {
					t.Fatal(err)
				}
			}
			valid.Store("second")
			if err := c.current().core.Get().Resource("services").Do(t.Context()).Error(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestClientCertificate: an expired certificate is replaced in its files.
func TestClientCertificate(t *testing.T) {
	clients := newAuthority(t)
	give := func(r *rig, until time.Time) {
		certificate, key := clients.client(until)
		r.write("client.key", key)
		r.write("client.crt", certificate)
	}
	r := startAt(t, newAPI(t, clients.pool()), Options{}, func(r *rig) {
		whole(r)
		give(r, time.Now().Add(-time.Minute))
		r.user("client-certificate: client.crt, client-key: client.key")
	})
	r.complains("refuses the client certificate")
	give(r, time.Now().Add(time.Hour))
	r.want(wholeTable)
}

// TestCredentialsLater: a start without readable credentials reports what is wrong with them, and reads them when they
// are mended.
func TestCredentialsLater(t *testing.T) {
	remove := func(name string) func(r *rig) {
		return func(r *rig) {
			if err := os.Remove(r.path(name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name    string
		prepare func(r *rig)
		wrong   string // file with the fault
		says    string
	}{
		{"no kubeconfig", remove("kubeconfig"), "kubeconfig", "no such file"},
		{"empty kubeconfig", func(r *rig) { r.write("kubeconfig", "") }, "kubeconfig", "no configuration"},
		{"broken kubeconfig", func(r *rig) { r.write("kubeconfig", "users: [") }, "kubeconfig", "YAML"},
		{"no server", func(r *rig) { r.write("kubeconfig", strings.ReplaceAll(r.config("tokenFile: token"), r.URL, "a b")) }, "kubeconfig", "invalid character"},
		{"exec plugin", func(r *rig) { r.user("exec: {apiVersion: v9, interactiveMode: Never, command: cat}") }, "kubeconfig", "v9"},
		{"no token", remove("token"), "token", "no such file"},
		{"no CA", remove("ca.crt"), "ca.crt", "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := start(t, Options{}, func(r *rig) {
				whole(r)
				c.prepare(r)
				if err := Check(Options{Kubeconfig: r.path("kubeconfig")}); err == nil || !strings.Contains(err.Error(), r.path(c.wrong)) {
					t.Errorf("Check: %v", err)
				}
			})
			e := r.complains("kubeconfig "+r.path("kubeconfig")+": ", r.path(c.wrong), c.says)
			if out := (*OutageError)(nil); !errors.As(e.err, &out) || out.Since.IsZero() {
				t.Errorf("%#v, want an outage", e.err)
			}
			time.Sleep(3 * firstPause)
			if n := len(r.emits); n > 0 {
				t.Errorf("the same is reported %d times more", n)
			}
			r.kubeconfig(r.ca(), "first")
			r.want(wholeTable)
			if err := Check(Options{Kubeconfig: r.path("kubeconfig")}); err != nil {
				t.Error("Check:", err)
			}
		})
	}
}

// TestEndsWithoutCredentials: the source ends while it waits for credentials.
func TestEndsWithoutCredentials(t *testing.T) {
	s, err := New(Options{Kubeconfig: "/does/not/exist"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := s.Watch(ctx, func(sources.Table, error) { cancel() }); err != nil {
		t.Error(err)
	}
}

// TestLeadsNowhere: options that no file can mend are refused.
func TestLeadsNowhere(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, o := range []Options{{Master: "127.0.0.1:6443/a"}, {Master: "http://a b"}, {}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// TestNoCredentials: the credentials become invalid or missing, and are reported with the file's name.
func TestNoCredentials(t *testing.T) {
	r := start(t, Options{}, func(r *rig) {
		whole(r)
		r.user("exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: cat, args: [/does/not/exist]}")
	})
	r.complains("cannot get credentials")
	r.user("tokenFile: token")
	r.want(wholeTable)
	if err := os.Remove(r.path("kubeconfig")); err != nil {
		t.Fatal(err)
	}
	r.answer(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "/")
	r.cutWatches()
	r.complains("kubeconfig " + r.path("kubeconfig") + ": no such file")
	r.user("tokenFile: token")
	if err := os.Remove(r.path("token")); err != nil {
		t.Fatal(err)
	}
	r.complains("kubeconfig "+r.path("kubeconfig")+": ", r.path("token")+": no such file")
	r.write("token", "first")
	r.answer(0, "")
	r.put(svc("new", "10.96.0.3"))
	r.want("db, new, web 10.2.0.1")
}

// TestMaster: a URL alone is enough, and it overrides the kubeconfig's.
func TestMaster(t *testing.T) {
	for _, alone := range []bool{true, false} {
		r := &rig{T: t, api: newAPI(t, nil), dir: t.TempDir(), emits: make(chan emission, 1000)}
		whole(r)
		plain := httptest.NewServer(r.api)
		defer plain.Close()
		o := Options{Master: plain.URL}
		if !alone {
			r.write("ca.crt", r.ca())
			r.write("kubeconfig", strings.ReplaceAll(r.config("token: first"), r.URL, "https://127.0.0.1:1"))
			o.Kubeconfig = r.path("kubeconfig")
		}
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.Watch(ctx, func(table sources.Table, err error) { r.emits <- emission{table, err} })
		r.want(wholeTable)
	}
}
