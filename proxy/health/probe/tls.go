package probe

import (
	"cmp"
	"crypto/rsa"
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
	c, expires, ended := a.dialTLS()
	if c == nil {
		return ended
	}
	c.NetConn().Close()
	return Result{Outcome: OK, Expires: expires}
}

// allSuites are the cipher suites of crypto/tls: old appliances have no other key exchange than that of RSA, which is
// not offered by default. A probe has no secret to protect.
var allSuites = func() (ids []uint16) {
	for _, s := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		ids = append(ids, s.ID)
	}
	return ids
}()

// curves leaves out the post-quantum key exchange: a probe has no secret, and the key share of 1.2 kB would cost
// more than the rest of the handshake's first message.
var curves = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}

// configTLS returns the configuration of a handshake. Without verification it takes as many servers as crypto/tls can,
// since a probe must not be stricter than its clients. With it, it is as strict as crypto/tls is by default: go.mod
// admits negative serial numbers (x509negativeserial), so they are refused here.
func (a *attempt) configTLS(protocols []string) (*tls.Config, error) {
	config := &tls.Config{ServerName: a.serverName(), NextProtos: protocols, CurvePreferences: curves}
	if !a.Verify {
		config.InsecureSkipVerify, config.MinVersion, config.CipherSuites = true, tls.VersionTLS10, allSuites
		return config, nil
	}
	config.VerifyConnection = func(s tls.ConnectionState) error {
		for _, c := range s.PeerCertificates {
			if c.SerialNumber.Sign() < 0 {
				return errors.New("certificate has a negative serial number")
			}
		}
		return nil
	}
	if a.CAFile == "" {
		return config, nil
	}
	var err error
	config.RootCAs, err = a.prober.cas.load(a.CAFile)
	return config, err
}

// dialTLS connects and makes a handshake; it returns when the certificate expires. Without a connection the probe has
// ended with the result. No session is resumed: a full handshake sees the certificate that the server has now. The
// caller closes NetConn, so that no close_notify delays the RST.
func (a *attempt) dialTLS(protocols ...string) (*tls.Conn, time.Time, Result) {
	config, err := a.configTLS(protocols)
	if err != nil {
		return nil, time.Time{}, result(Void, err.Error())
	}
	c, err := a.dial(syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, time.Time{}, failure(err, "connect")
	}
	secure := tls.Client(c, config)
	if err := secure.Handshake(); err != nil {
		c.Close()
		chain := secure.ConnectionState().PeerCertificates
		if why := cmp.Or(unreadable(err), shortKey(chain)); why != "" && !a.Verify {
			warning := "cannot use its certificate: " + why
			return nil, time.Time{}, Result{Outcome: OK, Warning: printable(warning), Expires: expiry(chain)}
		}
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

// unreadable returns what crypto/tls finds wrong with a certificate that it cannot parse, or whose key is too long for
// it; "" if the handshake failed for another reason. Other clients do not look, and reach the server. crypto/tls parses
// it also without verification, and its errors have no type: TestUnreadableCertificates notices if the words change.
func unreadable(err error) string {
	for _, start := range []string{
		"tls: failed to parse certificate from server: ", "tls: server sent certificate containing ",
	} {
		if why, ok := strings.CutPrefix(err.Error(), start); ok {
			return strings.TrimPrefix(why, "x509: ")
		}
	}
	return ""
}

// shortKey says that the server's key is shorter than crypto/rsa takes; "" if it is not.
func shortKey(chain []*x509.Certificate) string {
	if len(chain) > 0 {
		if key, ok := chain[0].PublicKey.(*rsa.PublicKey); ok && key.Size() < 1024/8 {
			return fmt.Sprintf("RSA key of %d bits", key.N.BitLen())
		}
	}
	return ""
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
