//go:build !noapiserver

package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// script sets a shell script as the plugin of the kubeconfig. It runs in the rig's directory.
func (r *rig) script(text, more string) {
	r.Helper()
	r.write("plugin", "#!/bin/sh\ncd "+r.dir+"\n"+text)
	if err := os.Chmod(r.path("plugin"), 0o700); err != nil {
		r.Fatal(err)
	}
	r.user("exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: " + r.path("plugin") + more + "}")
}

// printed writes the output for a plugin to file credential.
func (r *rig) printed(status string) {
	r.Helper()
	r.write("credential", `{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": {`+status+`}}`)
}

// group is the process group that the plugin wrote to file pid.
func (r *rig) group() int {
	r.Helper()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		data, _ := os.ReadFile(r.path("pid"))
		if pid, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil {
			return pid
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.Fatal("the plugin did not begin")
	return 0
}

// wantNone waits until a process group has no running process.
func wantNone(t *testing.T, group int) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) {
		if time.Now().After(deadline) {
			t.Fatalf("process group %d is still there", group)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// hangs is a plugin that does not end and has a child process.
const hangs = "echo $$ >pid.new; mv pid.new pid; sleep 1000 & sleep 1000\n"

// TestPluginEndsWithTheSource: a hanging plugin does not survive the source and does not delay its end.
func TestPluginEndsWithTheSource(t *testing.T) {
	r := &rig{T: t, api: newAPI(t, nil), dir: t.TempDir()}
	r.write("ca.crt", r.ca())
	r.script(hangs, "")
	s, err := New(Options{Kubeconfig: r.path("kubeconfig"), QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Watch(ctx, func(sources.Table, error) {})
	}()
	group := r.group()
	cancel()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the source waits for the plugin")
	}
	wantNone(t, group)
}

// TestPluginThatHangs: a hanging plugin is killed in time, with its children. The next run uses its replacement.
func TestPluginThatHangs(t *testing.T) {
	defer func(d time.Duration) { pluginTimeout = d }(pluginTimeout)
	pluginTimeout = time.Second / 2
	r := start(t, Options{}, func(r *rig) {
		whole(r)
		r.script(hangs, "")
	})
	group := r.group()
	r.complains("cannot get credentials", "still running after 500ms")
	wantNone(t, group)
	r.printed(`"token": "first"`)
	r.script("cat credential\n", "")
	r.want(wholeTable)
}

// TestPluginThatPrints: a plugin with endless output is killed, and its standard error is truncated.
func TestPluginThatPrints(t *testing.T) {
	r := start(t, Options{}, func(r *rig) {
		whole(r)
		r.script("echo $$ >pid.new; mv pid.new pid; exec yes\n", "")
	})
	r.complains("cannot get credentials", "printed more than 1 MiB")
	wantNone(t, r.group())

	var out strings.Builder
	full := 0
	c := &capped{w: &out, left: 5, full: func() { full++ }}
	for range 3 {
		if n, err := c.Write([]byte("abc")); n != 3 || err != nil {
			t.Error(n, err)
		}
	}
	if out.String() != "abcab" || full != 2 {
		t.Errorf("%q, full %d times", out.String(), full)
	}
}

// TestPluginFailures: each failure has its own reason.
func TestPluginFailures(t *testing.T) {
	for _, c := range []struct{ script, more, want string }{
		{"exit 3", "", "failed: exit status 3"},
		{"echo nonsense", "", "cannot read its output"},
		{`echo '{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1"}'`, "", "its output has no status"},
		{`echo '{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": {}}'`, "", "neither a token nor a certificate"},
		{`echo '{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1beta1", "status": {"token": "first"}}'`, "", "want client.authentication.k8s.io/v1"},
		{"", ", installHint: install it", "no such file or directory"},
	} {
		t.Run(c.want, func(t *testing.T) {
			t.Parallel()
			r := start(t, Options{}, func(r *rig) {
				whole(r)
				r.script(c.script, c.more)
				if c.script == "" {
					os.Remove(r.path("plugin"))
				}
			})
			r.complains("cannot get credentials", c.want)
		})
	}
}

// TestPluginIsAsked: a plugin runs once for all kinds, gets the cluster, and runs again when its credentials have expired
// or are refused. A child that keeps the output open delays nothing.
func TestPluginIsAsked(t *testing.T) {
	r := start(t, Options{}, func(r *rig) {
		whole(r)
		r.lock()
		r.printed(`"token": "first"`)
		r.script("echo \"$KUBERNETES_EXEC_INFO\" >>asked\nsleep 1000 &\ncat credential\n", ", provideClusterInfo: true, env: [{name: A, value: b}]")
	})
	r.want(wholeTable)
	data, _ := os.ReadFile(r.path("asked"))
	asked := strings.Split(strings.TrimSpace(string(data)), "\n")
	var info struct {
		Spec struct{ Cluster struct{ Server string } }
	}
	if err := json.Unmarshal([]byte(asked[0]), &info); err != nil || info.Spec.Cluster.Server != r.URL || len(asked) != 1 {
		t.Errorf("asked %q, %v, want once and of %s", asked, err, r.URL)
	}
}

// TestPluginExpiry: credentials are used until they expire.
func TestPluginExpiry(t *testing.T) {
	r := start(t, Options{}, func(r *rig) {
		whole(r)
		r.printed(`"token": "first", "expirationTimestamp": "` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `"`)
		r.script("echo >>asked\ncat credential\n", "")
	})
	r.want(wholeTable)
	asked := func() int {
		data, _ := os.ReadFile(r.path("asked"))
		return len(data)
	}
	r.put(svc("new", "10.96.0.3"))
	r.want("db, new, web 10.2.0.1")
	r.cutWatches()
	r.put(svc("old", "10.96.0.4"))
	r.wait("old", func(e emission) bool { return e.table.Services.Len() == 4 })
	if n := asked(); n != 1 {
		t.Errorf("asked %d times, want once", n)
	}
	p := &plugin{now: &credentials{token: "first", until: time.Now().Add(-time.Second)}, asking: &asking{done: make(chan struct{})}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := p.credentials(ctx); got != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("expired ones are used: %v, %v", got, err)
	}
}

// TestPluginCertificate: a plugin returns a client certificate, and another one when that has expired.
func TestPluginCertificate(t *testing.T) {
	clients := newAuthority(t)
	give := func(r *rig, until time.Time) {
		certificate, key := clients.client(until)
		c, _ := json.Marshal(certificate)
		k, _ := json.Marshal(key)
		r.printed(fmt.Sprintf(`"clientCertificateData": %s, "clientKeyData": %s, "expirationTimestamp": %q`, c, k, time.Now().UTC().Format(time.RFC3339)))
	}
	r := startAt(t, newAPI(t, clients.pool()), Options{}, func(r *rig) {
		whole(r)
		give(r, time.Now().Add(-time.Minute))
		r.script("cat credential\n", "")
	})
	r.complains("refuses the client certificate")
	give(r, time.Now().Add(time.Hour))
	r.want(wholeTable)
}

// TestPluginsThatCannotBe: Check refuses an invalid plugin.
func TestPluginsThatCannotBe(t *testing.T) {
	r := &rig{T: t, api: newAPI(t, nil), dir: t.TempDir()}
	r.write("ca.crt", r.ca())
	for _, c := range []struct{ exec, want string }{
		{"apiVersion: client.authentication.k8s.io/v1alpha1, interactiveMode: Never, command: x", "is not known"},
		{"apiVersion: client.authentication.k8s.io/v1, interactiveMode: Always, command: x", "a daemon has no terminal"},
	} {
		r.user("exec: {" + c.exec + "}")
		if err := Check(Options{Kubeconfig: r.path("kubeconfig")}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.exec, err, c.want)
		}
	}
}
