//go:build !noapiserver

package apiserver

import (
	"bytes"
	"fmt"
	"net/http"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"
	"weak"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// TestRenewalsLeaveNothing: a renewal leaves neither the transport of the old credentials nor goroutines that read their files.
func TestRenewalsLeaveNothing(t *testing.T) {
	t.Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "0") // its timer would hold each connection for 30 s
	clients := newAuthority(t)
	give := func(r *rig) {
		certificate, key := clients.client(time.Now().Add(time.Hour))
		r.write("client.key", key)
		r.write("client.crt", certificate)
	}
	plugin := "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: cat, args: [credential]}"
	for name, renew := range map[string]func(r *rig, round int){
		"token": func(r *rig, round int) { r.user(fmt.Sprintf("token: number-%d", round)) },
		"certificate files": func(r *rig, _ int) {
			give(r)
			r.user("client-certificate: client.crt, client-key: client.key")
		},
		"exec plugin": func(r *rig, round int) {
			r.printed(`"token": "first"`)
			r.user(strings.ReplaceAll(plugin, "[credential]", "["+r.path("credential")+"]"))
			r.write("ca.crt", r.ca()+strings.Repeat("\n", round))
		},
		"exec plugin and certificate files": func(r *rig, _ int) {
			give(r)
			r.user("client-certificate: client.crt, client-key: client.key, " + plugin)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &rig{T: t, api: newAPI(t, nil), dir: t.TempDir()}
			whole(r)
			r.write("ca.crt", r.ca())
			renew(r, 0)
			c, err := connect(Options{Kubeconfig: r.path("kubeconfig"), QPS: -1})
			if err != nil {
				t.Fatal(err)
			}
			defer c.close()
			var old []weak.Pointer[http.Transport]
			for round := range 5 {
				before := c.current()
				old = append(old, transportOf(t, before))
				for range 2 { // http2 keeps a connection of one request in its pool for 5 s after its end
					if err := before.core.Get().Resource("services").Do(t.Context()).Error(); err != nil {
						t.Fatal(err)
					}
				}
				renew(r, round+1)
				if now, err := c.renew(); err != nil || now == before {
					t.Fatalf("round %d: not renewed: %v", round, err)
				}
			}
			last := transportOf(t, c.current())
			eventually(t, func() error {
				runtime.GC()
				for i, p := range old {
					if p.Value() != nil {
						return fmt.Errorf("the transport before renewal %d is still there", i+1)
					}
				}
				if n := readers(); n > 1 {
					return fmt.Errorf("%d goroutines read certificate files", n)
				}
				return nil
			})
			if last.Value() == nil {
				t.Error("the transport in use is gone")
			}
			runtime.KeepAlive(c.current())
			c.close()
			eventually(t, func() error {
				if n := readers(); n > 0 {
					return fmt.Errorf("%d goroutines read certificate files after the end", n)
				}
				return nil
			})
		})
	}
}

// TestProxyOfTheKubeconfig: the kubeconfig's proxy is used, and without one that of the environment.
func TestProxyOfTheKubeconfig(t *testing.T) {
	r := &rig{T: t, api: newAPI(t, nil), dir: t.TempDir()}
	r.write("ca.crt", r.ca())
	for _, c := range []struct{ more, want string }{
		{"", ""}, // the environment names none for 127.0.0.1
		{", proxy-url: \"http://192.0.2.1:3128\"", "http://192.0.2.1:3128"},
	} {
		r.write("kubeconfig", strings.Replace(r.config("token: first"), "certificate-authority: ca.crt", "certificate-authority: ca.crt"+c.more, 1))
		a, err := connect(Options{Kubeconfig: r.path("kubeconfig"), QPS: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer a.close()
		got := ""
		q, _ := http.NewRequest(http.MethodGet, r.URL, nil)
		if u, err := transportOf(t, a.current()).Value().Proxy(q); err != nil {
			t.Error(err)
		} else if u != nil {
			got = u.String()
		}
		if got != c.want {
			t.Errorf("proxy %q, want %q", got, c.want)
		}
	}
}

// transportOf is the transport below the wrappers of an access.
func transportOf(t *testing.T, a *access) weak.Pointer[http.Transport] {
	t.Helper()
	rt := a.core.(*rest.RESTClient).Client.Transport
	for {
		switch x := rt.(type) {
		case *http.Transport:
			return weak.Make(x)
		case utilnet.RoundTripperWrapper:
			rt = x.WrappedRoundTripper()
		default:
			t.Fatalf("no transport below %T", rt)
		}
	}
}

// readers counts the goroutines of client-go that read certificate files again.
func readers() int {
	var b bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&b, 2)
	return strings.Count(b.String(), "transport.(*dynamicClientCert).run(")
}

func eventually(t *testing.T, is func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := is()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
