package probe

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// tls makes a TLS handshake.
func (a *attempt) tls() Result {
	c, expires, failed := a.dialTLS()
	if c == nil {
		return failed
	}
	c.NetConn().Close()
	return Result{Outcome: OK, Expires: expires}
}

// curves leaves out the post-quantum key exchange: a probe has no secret, and the key share of 1.2 kB would cost
// more than the rest of the handshake's first message.
var curves = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}

// dialTLS connects and makes a handshake; it returns when the certificate expires. Without a connection the result
// says why. No session is resumed: a full handshake sees the certificate that the server has now. The caller closes
// NetConn, so that no close_notify delays the RST.
func (a *attempt) dialTLS(protocols ...string) (*tls.Conn, time.Time, Result) {
	config := &tls.Config{
		ServerName: a.serverName(), InsecureSkipVerify: !a.Verify, NextProtos: protocols, CurvePreferences: curves,
	}
	if a.Verify && a.CAFile != "" {
		pool, err := a.prober.cas.load(a.CAFile)
		if err != nil {
			return nil, time.Time{}, result(Void, err.Error())
		}
		config.RootCAs = pool
	}
	c, err := a.dial(syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, time.Time{}, failure(err, "connect")
	}
	secure := tls.Client(c, config)
	if err := secure.Handshake(); err != nil {
		c.Close()
		return nil, time.Time{}, failureTLS(err)
	}
	a.done("TLS established")
	return secure, expiry(secure.ConnectionState().PeerCertificates), Result{}
}

// serverName returns the name that the certificate must have, which is also sent to the server unless it is an address.
func (a *attempt) serverName() string {
	switch {
	case a.ServerName != "":
		return a.ServerName
	case a.Host != "":
		if host, _, err := net.SplitHostPort(a.Host); err == nil {
			return host
		}
		return a.Host
	}
	return a.target.Addr().WithZone("").String()
}

// expiry returns when the server's own certificate expires. Those above it may have expired without harm: servers
// send cross-signed ones along.
func expiry(chain []*x509.Certificate) time.Time {
	if len(chain) == 0 {
		return time.Time{}
	}
	return chain[0].NotAfter
}

func failureTLS(err error) Result {
	if unverified, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		r := result(TLS, certificateFault(unverified.Err))
		r.Expires = expiry(unverified.UnverifiedCertificates)
		return r
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return result(TLS, "the server does not speak TLS")
	}
	_, isErrno := errors.AsType[syscall.Errno](err)
	if isErrno || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return failure(err, "TLS handshake")
	}
	return result(TLS, tlsText(err))
}

// tlsText returns an error of crypto/tls without the words that every one has.
func tlsText(err error) string {
	return strings.TrimPrefix(strings.Replace(err.Error(), "error: tls: ", "alert: ", 1), "tls: ")
}

func certificateFault(err error) string {
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		if invalid.Cert != nil && time.Now().Before(invalid.Cert.NotBefore) {
			return fmt.Sprintf("certificate is not valid before %s", invalid.Cert.NotBefore.UTC().Format(time.RFC3339))
		}
		return "certificate has expired"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "certificate is signed by an unknown authority"
	}
	return strings.TrimPrefix(err.Error(), "x509: ")
}
