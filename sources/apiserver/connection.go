//go:build !noapiserver

package apiserver

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/connrotation"
	"k8s.io/client-go/util/flowcontrol"
)

// connection follows changes of the credentials. client-go reads token files again every minute and client
// certificates every five, but the kubeconfig and the CA only once; plugin handles exec plugins. So when a request
// fails, renew reads all files, and connects again if one has changed.
type connection struct {
	o     Options
	limit flowcontrol.RateLimiter // of all kinds together, and over renewals
	read  func(path string) ([]byte, error)

	life context.Context // ends with close
	end  context.CancelFunc

	mu  sync.Mutex
	now *access
}

// access is the clients for one set of credentials. It does not change.
type access struct {
	sum  [2][sha256.Size]byte // of the kubeconfig, and of the other files
	dial *connrotation.Dialer // has the open connections
	host string               // the API server's URL
	end  context.CancelFunc   // stops the plugin, and reading certificate files
	runs *plugin              // nil: no plugin
	core rest.Interface       // api/v1
	disc rest.Interface       // apis/discovery.k8s.io/v1
}

// client-go's defaults, which it applies only to a limiter and a dialer of its own. Its dialTimeout is 30 s.
const (
	defaultQPS   = 5
	defaultBurst = 10
	dialTimeout  = 10 * time.Second
	keepAlive    = 30 * time.Second
)

// connect makes a connection, which has no access yet if the credentials cannot be read: see await. It fails only if
// o itself leads nowhere, whatever the files say.
func connect(o Options) (*connection, error) {
	if o.Master != "" {
		if _, _, err := rest.DefaultServerUrlFor(&rest.Config{Host: o.Master}); err != nil {
			return nil, fmt.Errorf("master %s: %w", o.Master, err)
		}
	}
	qps, burst := o.QPS, o.Burst
	if qps == 0 {
		qps = defaultQPS
	}
	if burst <= 0 {
		burst = defaultBurst
	}
	c := &connection{o: o, limit: flowcontrol.NewFakeAlwaysRateLimiter(), read: os.ReadFile}
	c.life, c.end = context.WithCancel(context.Background())
	if qps > 0 {
		c.limit = flowcontrol.NewTokenBucketRateLimiter(float32(qps), burst)
	}
	// This process gets no account of a pod later: its environment has none.
	if _, err := c.renew(); errors.Is(err, rest.ErrNotInCluster) {
		return nil, err
	}
	return c, nil
}

// await returns true when there is an access, and false if ctx ends before. Credentials may be written or mended later,
// as those of a running source are. report gets each reason why there is no access.
func (c *connection) await(ctx context.Context, report func(error)) bool {
	var p pace
	since, reported := time.Now(), ""
	for c.current() == nil {
		_, err := c.renew()
		if err == nil {
			break
		}
		if reason := err.Error(); reason != reported {
			reported = reason
			report(&OutageError{Reasons: []string{reason}, Since: since, Err: err})
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(p.next(0, false)):
		}
	}
	return true
}

// close stops a running credential plugin.
func (c *connection) close() {
	c.end()
	if a := c.current(); a != nil && a.runs != nil {
		a.runs.wait()
	}
}

// current is the access to use, nil before await.
func (c *connection) current() *access {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// renew reads the credentials again and connects again if they have changed. It returns the access to use from now
// on.
func (c *connection) renew() (*access, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Take the kubeconfig's sum before its content. The file may be replaced in between. In the other order, the
	// new file's sum would then be noted with the old credentials, and the new ones never used.
	kubeconfig, unread := c.fingerprint(c.o.Kubeconfig)
	config, err := c.config()
	if err != nil {
		return c.now, fmt.Errorf("%s: %w", c.from(), c.cause(err))
	}
	files, err := c.fingerprint(config.CAFile, config.BearerTokenFile, config.CertFile, config.KeyFile)
	if err = errors.Join(unread, err); err != nil {
		return c.now, fmt.Errorf("%s: %w", c.from(), err)
	}
	sum := [2][sha256.Size]byte{kubeconfig, files}
	if c.now != nil && sum == c.now.sum {
		return c.now, nil
	}
	next, err := open(c.life, config)
	if err != nil {
		return c.now, fmt.Errorf("%s: %w", c.from(), c.cause(err))
	}
	if c.now != nil {
		c.now.dial.CloseAll() // they have the old credentials
		c.now.end()
	}
	next.sum = sum
	c.now = next
	return next, nil
}

// open makes the clients of both API groups. They share their connections.
func open(life context.Context, config *rest.Config) (a *access, err error) {
	life, end := context.WithCancel(life)
	defer func() {
		if err != nil {
			end()
		}
	}()
	a = &access{
		dial: connrotation.NewDialer((&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}).DialContext),
		host: config.Host,
		end:  end,
	}
	config.Dial = a.dial.DialContext
	client, err := a.client(life, config)
	if err != nil {
		return nil, err
	}
	ofGroup := func(path string, gv schema.GroupVersion) (rest.Interface, error) {
		its := rest.CopyConfig(config)
		its.APIPath, its.GroupVersion = path, &gv
		return rest.RESTClientForConfigAndClient(its, client)
	}
	if a.core, err = ofGroup("/api", corev1.SchemeGroupVersion); err != nil {
		return nil, err
	}
	if a.disc, err = ofGroup("/apis", discoveryv1.SchemeGroupVersion); err != nil {
		return nil, err
	}
	return a, nil
}

// client makes the HTTP client, with an exec plugin if the kubeconfig names one. It removes the plugin from the
// configuration.
func (a *access) client(life context.Context, config *rest.Config) (*http.Client, error) {
	if config.ExecProvider != nil {
		var err error
		if a.runs, err = newPlugin(life, config); err != nil {
			return nil, err
		}
		a.runs.rotated = a.dial.CloseAll
		config.ExecProvider = nil
	}
	t, err := config.TransportConfig()
	if err != nil {
		return nil, err
	}
	if a.runs != nil {
		a.runs.authorize(t)
	}
	rt, err := newTransport(life, t)
	return &http.Client{Transport: rt, Timeout: config.Timeout}, err
}

// from says where the credentials come from, for messages.
func (c *connection) from() string {
	switch {
	case c.o.Kubeconfig != "":
		return "kubeconfig " + c.o.Kubeconfig
	case c.o.Master != "":
		return "master " + c.o.Master
	}
	return "the pod's account"
}

func (c *connection) config() (*rest.Config, error) {
	read := rest.InClusterConfig
	if c.o.Kubeconfig != "" || c.o.Master != "" {
		read = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
			&clientcmd.ClientConfigLoadingRules{ExplicitPath: c.o.Kubeconfig},
			&clientcmd.ConfigOverrides{ClusterInfo: clientcmdapi.Cluster{Server: c.o.Master}},
		).ClientConfig
	}
	if err := c.decodes(); err != nil {
		return nil, err
	}
	config, err := read()
	if err != nil {
		return nil, err
	}
	config.ContentType, config.AcceptContentTypes = c.o.ContentType, c.o.AcceptContentTypes
	config.RateLimiter = c.limit
	config.UserAgent = c.o.UserAgent
	config.NegotiatedSerializer = wire().codecs.WithoutConversion()
	config.WarningHandler = rest.NoWarnings{}
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return counting{rt} })
	return config, nil
}

// decodes refuses a kubeconfig that is not one, by its line alone: the decoders' errors quote its text, which may be a
// token or a key.
func (c *connection) decodes() error {
	if c.o.Kubeconfig == "" {
		return nil
	}
	_, err := clientcmd.LoadFromFile(c.o.Kubeconfig)
	if pe := (*fs.PathError)(nil); err == nil || errors.As(err, &pe) {
		return err
	}
	// The YAML decoder's error is "... line N: ...".
	var line int
	if _, at, ok := strings.Cut(err.Error(), "line "); ok {
		if n, _ := fmt.Sscanf(at, "%d", &line); n == 1 {
			return fmt.Errorf("line %d: is not the YAML or JSON of a kubeconfig", line)
		}
	}
	return errors.New("is not the YAML or JSON of a kubeconfig: a field is of another type, or data is not base64")
}

// fingerprint is a sum of the content of files. It skips "".
func (c *connection) fingerprint(paths ...string) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	for _, path := range paths {
		if path == "" {
			continue
		}
		data, err := c.read(path)
		if err != nil {
			return sum, err
		}
		fmt.Fprintf(h, "%d ", len(data))
		h.Write(data)
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// cause is an error without the kubeconfig's name, which the message has already, and without its text. The
// name of another file stays.
func (c *connection) cause(err error) error {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) && pe.Path == c.o.Kubeconfig {
		return pe.Err
	}
	if ue := (*url.Error)(nil); errors.As(err, &ue) {
		return fmt.Errorf("a URL in it: %w", ue.Err) // the URL may have a password
	}
	if strings.Contains(err.Error(), "://") {
		return errors.New("a URL in it is not valid")
	}
	return err
}

// get begins a request for a kind, without retries: the follower waits and renews the access.
func (a *access) get(k kind, o metav1.ListOptions) *rest.Request {
	group := a.core
	if k.discovery {
		group = a.disc
	}
	o.LabelSelector, o.FieldSelector = k.labels, k.fields
	return group.Get().Resource(k.resource).VersionedParams(&o, wire().parameters).MaxRetries(0)
}

// wire encodes objects and parameters. It is made with the first connection, so that a daemon without this source
// does not pay for it.
var wire = sync.OnceValue(func() (w struct {
	codecs     serializer.CodecFactory
	parameters runtime.ParameterCodec
}) {
	scheme := types()
	w.codecs = serializer.NewCodecFactory(scheme)
	w.parameters = runtime.NewParameterCodec(scheme)
	return w
})

// types registers only the types that are used: client-go's own scheme has a thousand.
func types() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Service{}, &corev1.ServiceList{}, &corev1.Node{},
		&corev1.NodeList{})
	s.AddKnownTypes(discoveryv1.SchemeGroupVersion, &discoveryv1.EndpointSlice{}, &discoveryv1.EndpointSliceList{})
	for _, gv := range []schema.GroupVersion{corev1.SchemeGroupVersion, discoveryv1.SchemeGroupVersion} {
		metav1.AddToGroupVersion(s, gv)
	}
	return s
}
