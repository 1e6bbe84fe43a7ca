//go:build !noapiserver

package apiserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/pkg/apis/clientauthentication"
	"k8s.io/client-go/pkg/apis/clientauthentication/install"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"
)

// plugin gets credentials from an exec plugin of the kubeconfig. Unlike client-go's authenticator it limits the
// plugin's time and output (see execute). It is never interactive.
type plugin struct {
	config  *clientcmdapi.ExecConfig
	request string          // the environment variable with the request
	life    context.Context // of the connection: its end kills a running plugin
	rotated func()          // called when the certificate changes

	mu     sync.Mutex
	now    *credentials
	asking *asking
	kept   *tls.Certificate // the last one
}

// credentials are the output of a plugin. They do not change.
type credentials struct {
	token       string
	certificate *tls.Certificate
	until       time.Time // zero = no expiry
}

// asking is a run of the plugin. Many requests may wait for it.
type asking struct {
	done chan struct{}
	got  *credentials
	err  error
}

var execCodecs = sync.OnceValue(func() serializer.CodecFactory {
	s := runtime.NewScheme()
	install.Install(s)
	return serializer.NewCodecFactory(s)
})

// execGroups are the API versions that a plugin may use.
var execGroups = map[string]bool{"client.authentication.k8s.io/v1": true, "client.authentication.k8s.io/v1beta1": true}

// newPlugin reads the plugin's part of a kubeconfig.
func newPlugin(life context.Context, c *rest.Config) (*plugin, error) {
	p := &plugin{config: c.ExecProvider, life: life}
	switch {
	case !execGroups[p.config.APIVersion]:
		return nil, fmt.Errorf("exec plugin %s: apiVersion %q is not known", p.config.Command, p.config.APIVersion)
	case p.config.InteractiveMode == clientcmdapi.AlwaysExecInteractiveMode:
		return nil, fmt.Errorf("exec plugin %s has interactiveMode Always: a daemon has no terminal", p.config.Command)
	}
	ask := &clientauthentication.ExecCredential{}
	if p.config.ProvideClusterInfo {
		var err error
		if ask.Spec.Cluster, err = rest.ConfigToExecCluster(c); err != nil {
			return nil, err
		}
	}
	text, err := runtime.Encode(execCodecs().LegacyCodec(p.group()), ask)
	p.request = "KUBERNETES_EXEC_INFO=" + string(text)
	return p, err
}

func (p *plugin) group() schema.GroupVersion {
	return schema.FromAPIVersionAndKind(p.config.APIVersion, "").GroupVersion()
}

// authorize gives a transport the plugin's credentials. As in client-go, those in the kubeconfig itself take
// precedence.
func (p *plugin) authorize(t *transport.Config) {
	if t.HasTokenAuth() || t.HasBasicAuth() || t.HasCertAuth() {
		return
	}
	t.Wrap(func(rt http.RoundTripper) http.RoundTripper { return authorized{rt, p} })
	t.TLS.GetCertHolder = &transport.GetCertHolder{GetCert: p.certificate}
}

// authorized adds the plugin's token to requests.
type authorized struct {
	http.RoundTripper
	plugin *plugin
}

func (a authorized) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.Header.Get("Authorization") != "" {
		return a.RoundTripper.RoundTrip(q)
	}
	has, err := a.plugin.credentials(q.Context())
	if err != nil {
		return nil, &credentialError{err}
	}
	if has.token != "" {
		q = q.Clone(q.Context())
		q.Header.Set("Authorization", "Bearer "+has.token)
	}
	r, err := a.RoundTripper.RoundTrip(q)
	if err == nil && r.StatusCode == http.StatusUnauthorized {
		a.plugin.forget(has)
	}
	return r, err
}

// WrappedRoundTripper lets client-go find the transport that it made.
func (a authorized) WrappedRoundTripper() http.RoundTripper { return a.RoundTripper }

// certificate is the callback of a TLS handshake. The request has already obtained the certificate.
func (p *plugin) certificate() (*tls.Certificate, error) {
	has, err := p.credentials(p.life)
	if err != nil {
		return nil, &credentialError{err}
	}
	return has.certificate, nil
}

// forget drops the credentials, so that the next request runs the plugin, unless there are newer ones.
func (p *plugin) forget(refused *credentials) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == refused {
		p.now = nil
	}
}

// credentials returns the present credentials, or new ones if they have expired. All requests share one run of the
// plugin, which goes on if one of them ends.
func (p *plugin) credentials(ctx context.Context) (*credentials, error) {
	p.mu.Lock()
	if p.now != nil && (p.now.until.IsZero() || time.Now().Before(p.now.until)) {
		defer p.mu.Unlock()
		return p.now, nil
	}
	run := p.asking
	if run == nil {
		run = &asking{done: make(chan struct{})}
		p.asking = run
		go p.ask(run)
	}
	p.mu.Unlock()
	select {
	case <-run.done:
		return run.got, run.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ask runs the plugin for the waiting requests.
func (p *plugin) ask(run *asking) {
	out, err := execute(p.life, p.config, p.request)
	if err == nil {
		run.got, err = p.decode(out)
	}
	run.err = err
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asking, p.now = nil, run.got
	close(run.done)
	if run.got == nil {
		return
	}
	if last := p.kept; last != nil && !same(last, run.got.certificate) {
		p.rotated()
	}
	p.kept = run.got.certificate
}

func same(a, b *tls.Certificate) bool { return b != nil && a.Leaf.Equal(b.Leaf) }

// wait returns when no plugin runs. life must have ended.
func (p *plugin) wait() {
	p.mu.Lock()
	run := p.asking
	p.mu.Unlock()
	if run != nil {
		<-run.done
	}
}

// decode reads the output of a plugin.
func (p *plugin) decode(out []byte) (*credentials, error) {
	fault := func(format string, args ...any) (*credentials, error) {
		return nil, fmt.Errorf("exec plugin %s: %w", p.config.Command, fmt.Errorf(format, args...))
	}
	answer := &clientauthentication.ExecCredential{}
	_, is, err := execCodecs().UniversalDecoder(p.group()).Decode(out, nil, answer)
	status := answer.Status
	switch {
	case err != nil:
		return fault("cannot read its output: %w", err)
	case is.GroupVersion() != p.group():
		return fault("its output has apiVersion %s, want %s", is.GroupVersion(), p.group())
	case status == nil:
		return fault("its output has no status")
	case status.Token == "" && status.ClientCertificateData == "" && status.ClientKeyData == "":
		return fault("its output has neither a token nor a certificate and key")
	case (status.ClientCertificateData == "") != (status.ClientKeyData == ""):
		return fault("its output has a certificate or a key, and not both")
	}
	got := &credentials{token: status.Token}
	if t := status.ExpirationTimestamp; t != nil {
		got.until = t.Time
	}
	if status.ClientKeyData == "" {
		return got, nil
	}
	pair, err := tls.X509KeyPair([]byte(status.ClientCertificateData), []byte(status.ClientKeyData))
	if err != nil {
		return fault("%w", err)
	}
	if got.certificate = &pair; pair.Leaf == nil {
		return fault("%w", errors.New("a certificate that cannot be read"))
	}
	return got, nil
}
