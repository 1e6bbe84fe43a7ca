package probe

import (
	"bufio"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// openssl is a folder with keys and certificates, made by the program of the same name.
type openssl struct {
	t   *testing.T
	dir string
}

func newOpenSSL(t *testing.T) openssl {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	return openssl{t, t.TempDir()}
}

// certificate makes NAME.key and NAME.pem.
func (o openssl) certificate(name string, args ...string) {
	o.t.Helper()
	all := append([]string{"req", "-x509", "-nodes", "-days", "30", "-subj", "/CN=localhost",
		"-keyout", name + ".key", "-out", name + ".pem", "-newkey"}, args...)
	c := exec.Command("openssl", all...)
	c.Dir = o.dir
	if out, err := c.CombinedOutput(); err != nil {
		o.t.Fatalf("openssl %s: %v\n%s", strings.Join(all, " "), err, out)
	}
}

// serve runs s_server, which answers each GET with a page, and returns its address; false if this OpenSSL lacks what
// args ask for.
func (o openssl) serve(args ...string) (netip.AddrPort, bool) {
	o.t.Helper()
	c := exec.Command("openssl", append([]string{"s_server", "-accept", "127.0.0.1:0", "-www"}, args...)...)
	c.Dir = o.dir
	out, err := c.StdoutPipe()
	if err != nil {
		o.t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if at, ok := strings.CutPrefix(lines.Text(), "ACCEPT "); ok {
			return netip.MustParseAddrPort(at), true
		}
	}
	return netip.AddrPort{}, false
}

// opensslServers are servers that OpenSSL's client takes. Without verify, a probe takes those with ok too.
var opensslServers = []struct {
	name, args string
	ok         bool
	warning    string // the start of it
	strict     bool   // a probe with verify and the right CA takes it, too
}{
	{name: "RSA", args: "rsa", ok: true, strict: true},
	{name: "ECDSA", args: "ec", ok: true, strict: true},
	{name: "Ed25519", args: "ed25519", ok: true, strict: true},
	{name: "RSA of 1024 bits", args: "rsa1024 -cipher ALL:@SECLEVEL=0", ok: true, strict: true},
	{name: "TLS 1.3 alone", args: "rsa -tls1_3", ok: true, strict: true},
	{name: "TLS 1.2 alone", args: "rsa -tls1_2", ok: true, strict: true},
	{name: "TLS 1.1 alone", args: "rsa -tls1_1 -cipher ALL:@SECLEVEL=0", ok: true},
	{name: "TLS 1.0 alone", args: "rsa -tls1 -cipher ALL:@SECLEVEL=0", ok: true},
	{name: "TLS 1.0, RSA key exchange", args: "rsa -tls1 -cipher AES128-SHA:@SECLEVEL=0", ok: true},
	{name: "RSA key exchange, AES-GCM", args: "rsa -tls1_2 -cipher AES128-GCM-SHA256", ok: true},
	{name: "RSA key exchange, AES-256-GCM", args: "rsa -tls1_2 -cipher AES256-GCM-SHA384", ok: true},
	{name: "RSA key exchange, AES-CBC", args: "rsa -tls1_2 -cipher AES256-SHA", ok: true},
	{name: "RSA key exchange, AES-CBC-SHA256", args: "rsa -tls1_2 -cipher AES128-SHA256", ok: true},
	{name: "ECDHE, AES-CBC", args: "rsa -tls1_2 -cipher ECDHE-RSA-AES128-SHA", ok: true, strict: true},
	{name: "ECDHE, AES-CBC-SHA256", args: "rsa -tls1_2 -cipher ECDHE-RSA-AES128-SHA256", ok: true},
	{name: "ChaCha20", args: "rsa -tls1_2 -cipher ECDHE-RSA-CHACHA20-POLY1305", ok: true, strict: true},
	{name: "group P-521", args: "rsa -groups P-521", ok: true, strict: true},
	{name: "a client's certificate is asked for", args: "rsa -verify 1", ok: true, strict: true},
	{name: "negative serial, TLS 1.2", args: "negative -tls1_2", ok: true},
	{name: "negative serial, TLS 1.3", args: "negative -tls1_3", ok: true},
	{name: "unreadable name, TLS 1.2", args: "uri -tls1_2", ok: true, warning: "cannot use its certificate"},
	{name: "unreadable name, TLS 1.3", args: "uri -tls1_3", ok: true, warning: "cannot use its certificate"},
	{name: "unreadable one above it", args: "rsa -cert_chain k1.pem", ok: true, warning: "cannot use its certificate"},
	{name: "RSA of 512 bits", args: "rsa512 -tls1_2 -cipher ALL:@SECLEVEL=0", ok: true, warning: "cannot use its certificate"},
	{name: "RSA of 512 bits, RSA key exchange", args: "rsa512 -tls1_2 -cipher AES128-SHA:@SECLEVEL=0", ok: true,
		warning: "cannot use its certificate"},

	// crypto/tls cannot do these. services.toml(5) names them.
	{name: "DHE", args: "rsa -tls1_2 -cipher DHE-RSA-AES128-GCM-SHA256"},
	{name: "ECDHE, AES-CBC-SHA384", args: "rsa -tls1_2 -cipher ECDHE-RSA-AES256-SHA384"},
	{name: "RSA key exchange, AES-256-CBC-SHA256", args: "rsa -tls1_2 -cipher AES256-SHA256"},
	{name: "AES-CCM", args: "rsa -tls1_2 -cipher AES128-CCM"},
	{name: "ARIA", args: "rsa -tls1_2 -cipher ECDHE-ARIA128-GCM-SHA256"},
	{name: "group X448", args: "rsa -groups X448"},
	{name: "key of RSA-PSS", args: "pss"},
	{name: "key of Ed448", args: "ed448"},
}

// TestOpenSSLServers probes real servers, with tls and https, without verify and with it.
func TestOpenSSLServers(t *testing.T) {
	o := newOpenSSL(t)
	for name, args := range map[string]string{
		"rsa": "rsa:2048", "rsa1024": "rsa:1024", "rsa512": "rsa:512 -sha256", "ec": "ec -pkeyopt ec_paramgen_curve:P-256",
		"ed25519": "ed25519", "ed448": "ed448", "pss": "rsa-pss -pkeyopt rsa_keygen_bits:2048",
		"negative": "rsa:2048 -set_serial -5", "k1": "ec -pkeyopt ec_paramgen_curve:secp256k1", "uri": "rsa:2048",
	} {
		names := "subjectAltName=DNS:localhost"
		if name == "uri" {
			names += ",URI:http://[bad"
		}
		o.certificate(name, append(strings.Fields(args), "-addext", names)...)
	}
	for _, s := range opensslServers {
		words := strings.Fields(s.args)
		at, ok := o.serve(append([]string{"-key", words[0] + ".key", "-cert", words[0] + ".pem"}, words[1:]...)...)
		if !ok {
			t.Logf("%s: not with this OpenSSL", s.name)
			continue
		}
		for _, kind := range []sources.CheckType{sources.CheckTLS, sources.CheckHTTPS} {
			p := sources.Probe{Type: kind, Timeout: 10 * time.Second}
			if kind == sources.CheckHTTPS && s.warning == "" {
				p.ExpectBody = "Cipher" // the answer is read
			}
			r := do(t, p, at)
			if (r.Outcome == OK) != s.ok || !strings.HasPrefix(r.Warning, s.warning) || s.warning == "" && r.Warning != "" {
				t.Errorf("%s: %s: %s", s.name, kind, r)
			}
			p.Verify, p.ServerName, p.CAFile = true, "localhost", filepath.Join(o.dir, words[0]+".pem")
			if r := do(t, p, at); (r.Outcome == OK) != s.strict {
				t.Errorf("%s: %s with verify: %s", s.name, kind, r)
			}
		}
	}
}

// TestUnreadableCertificates holds what unreadable knows to what crypto/tls says today, in both ways of a handshake.
func TestUnreadableCertificates(t *testing.T) {
	own, _ := certificate(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	long := key.PublicKey
	long.N = new(big.Int).SetBit(new(big.Int).Set(key.N), 9000, 1)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &long, own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]tls.Certificate{
		"no certificate": {Certificate: [][]byte{{0x30, 0}}, PrivateKey: own.PrivateKey},
		"cut off":        {Certificate: [][]byte{own.Certificate[0][:100]}, PrivateKey: own.PrivateKey},
		"the second":     {Certificate: [][]byte{own.Certificate[0], []byte("x")}, PrivateKey: own.PrivateKey},
		"long key":       {Certificate: [][]byte{der}, PrivateKey: key},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			server := &tls.Config{MaxVersion: version, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				return &c, nil
			}}
			p := sources.Probe{Type: sources.CheckHTTPS}
			expect(t, "ok: cannot use its certificate...", p, serveTLS(t, server, hangs))
			p.Verify = true
			expect(t, "tls "+map[bool]string{true: "server sent...", false: "failed to parse..."}[name == "long key"], p,
				serveTLS(t, server, hangs))
		}
	}
}
