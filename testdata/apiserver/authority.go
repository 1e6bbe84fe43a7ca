package apiserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// An Authority signs certificates that only tests trust.
type Authority struct {
	PEM  []byte // its own certificate
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes one that is good for a day.
func NewAuthority(name string) (*Authority, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	a := &Authority{}
	der, key, err := sign(template, template, nil)
	if err != nil {
		return nil, fmt.Errorf("certificate authority %s: %w", name, err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	a.key, a.PEM = key, encode("CERTIFICATE", der)
	return a, nil
}

// Server is a certificate and its key for a server on these addresses.
func (a *Authority) Server(hosts ...net.IP) (cert, key []byte, err error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "server"},
		IPAddresses: hosts,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// Client is a certificate and its key for a user.
func (a *Authority) Client(user string) (cert, key []byte, err error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *Authority) issue(template *x509.Certificate) (cert, key []byte, err error) {
	der, private, err := sign(template, a.cert, a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate for %s: %w", template.Subject.CommonName, err)
	}
	key, err = encodeKey(private)
	return encode("CERTIFICATE", der), key, err
}

// sign makes a key and a certificate for it; without a signer it signs itself.
func sign(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if signer == nil {
		signer = key
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return nil, nil, err
	}
	// An hour back: a guest's clock need not be the host's to the second.
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	return der, key, err
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	return encode("EC PRIVATE KEY", der), err
}
