package probe

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// certificate returns a self-signed certificate for localhost and 127.0.0.1, and a CA file that has it.
func certificate(t testing.TB, from, to time.Time) (tls.Certificate, string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, NotBefore: from, NotAfter: to,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{{127, 0, 0, 1}}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

// serveTLS runs a server that answers "GET" with 200 and gives its config a certificate.
func serveTLS(t testing.TB, config *tls.Config, handle func(net.Conn)) netip.AddrPort {
	return serve(t, func(c net.Conn) {
		s := tls.Server(c, config)
		if s.Handshake() == nil {
			handle(s)
		}
	})
}

func TestTLS(t *testing.T) {
	to := time.Now().Add(240 * time.Hour).Truncate(time.Second)
	own, ca := certificate(t, time.Now().Add(-time.Hour), to)
	target := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{own}}, says("HTTP/1.1 200 OK\r\n\r\nfine"))
	old, oldCA := certificate(t, time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour))
	expired := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{old}}, says("HTTP/1.1 200 OK\r\n\r\n"))

	p := sources.Probe{Type: sources.CheckTLS}
	if r := expect(t, "ok", p, target); !r.Expires.Equal(to) {
		t.Errorf("expires %v, want %v", r.Expires, to)
	}
	expect(t, "ok", p, expired)
	p.Verify = true
	expect(t, "tls certificate is signed by an unknown authority", p, target)
	p.CAFile = ca
	expect(t, "ok", p, target) // by its address
	p.ServerName = "localhost"
	expect(t, "ok", p, target)
	p.ServerName = "example.org"
	expect(t, "tls certificate is valid for localhost, not example.org", p, target)
	p.ServerName, p.CAFile = "", oldCA
	if r := expect(t, "tls certificate has expired", p, expired); !r.Expires.Before(time.Now()) || r.Expires.IsZero() {
		t.Errorf("expires %v", r.Expires)
	}

	p = sources.Probe{Type: sources.CheckHTTPS, Verify: true, CAFile: ca, Host: "localhost:443", ExpectBody: "fine"}
	if r := expect(t, "ok", p, target); !r.Expires.Equal(to) {
		t.Errorf("expires %v, want %v", r.Expires, to)
	}
	p.ExpectBody = "bad"
	expect(t, "body", p, target)
}

func TestServerNameIsSent(t *testing.T) {
	own, _ := certificate(t, time.Now(), time.Now().Add(time.Hour))
	names := make(chan string, 1)
	target := serveTLS(t, &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		names <- h.ServerName
		return &own, nil
	}}, hangs)
	for _, p := range []sources.Probe{{ServerName: "a.example.org", Host: "b.example.org"}, {Host: "a.example.org:8443"}, {Host: "a.example.org"}} {
		p.Type = sources.CheckTLS
		expect(t, "ok", p, target)
		if got := <-names; got != "a.example.org" {
			t.Errorf("sent %q", got)
		}
	}
}

// TestHostileTLS has servers that do not speak TLS, stop in the middle, or ask for a second handshake.
func TestHostileTLS(t *testing.T) {
	own, _ := certificate(t, time.Now(), time.Now().Add(time.Hour))
	tls12 := &tls.Config{Certificates: []tls.Certificate{own}, MaxVersion: tls.VersionTLS12}
	slow := sources.Probe{Type: sources.CheckHTTPS, Timeout: short}
	p := sources.Probe{Type: sources.CheckHTTPS}
	expect(t, "tls the server does not speak TLS", p, serve(t, says("HTTP/1.1 400 Bad Request\r\n\r\n")))
	expect(t, "tls handshake message of length...", p, serve(t, endless("", "\x16\x03\x03\x40\x00")))
	// A handshake message of 16 MB, and records without end.
	expect(t, "tls...", p, serve(t, endless("\x16\x03\x03\x40\x00\x02\xff\xff\xff", "\x00")))
	expect(t, "tls...", p, serve(t, endless("", "\x15\x03\x03\x00\x02\x01\x5a"))) // warnings
	expect(t, "closed: TLS handshake", p, serve(t, says("")))
	expect(t, "tls remote alert: unrecognized name", p, serveTLS(t, &tls.Config{}, hangs))
	expect(t, "timeout: TLS handshake", slow, serve(t, hangs))
	expect(t, "timeout: TLS handshake", slow, serve(t, drips("\x16\x03\x03\x40\x00\x02\x00\x3f\xff")))
	expect(t, "timeout: answer", slow, serveTLS(t, tls12, drips("HTTP/1.1 200 OK\r\nA: bbbbbbbbb\r\n")))
	expect(t, "malformed...", p, serveTLS(t, tls12, endless("HTTP/1.1 200 OK\r\n", "A: b\r\n")))
	// HelloRequest: crypto/tls refuses to start again.
	renegotiate := serveTLS(t, tls12, func(c net.Conn) {
		c.Read(make([]byte, 4096))
		c.(*tls.Conn).NetConn().Write([]byte("\x16\x03\x03\x00\x04\x00\x00\x00\x00"))
		io.Copy(io.Discard, c.(*tls.Conn).NetConn())
	})
	expect(t, "tls...", p, renegotiate)
}

func TestCAFileIsReadAgain(t *testing.T) {
	own, ca := certificate(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	target := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{own}}, hangs)
	var p Prober
	what := sources.Probe{Type: sources.CheckTLS, Verify: true, CAFile: ca, Timeout: 10 * time.Second}
	probe := func(want string) {
		t.Helper()
		if r := p.Do(t.Context(), &what, target, Meta{}); r.Outcome.String() != want {
			t.Errorf("got %v, want %s", r, want)
		}
	}
	probe("ok")
	_, other := certificate(t, time.Now(), time.Now().Add(time.Hour))
	text, _ := os.ReadFile(other)
	os.WriteFile(ca, text, 0o600)
	os.Chtimes(ca, time.Time{}, time.Now().Add(time.Minute))
	probe("tls")
	os.WriteFile(ca, []byte("none"), 0o600)
	probe("void")
}
