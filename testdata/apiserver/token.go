package apiserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
)

// issuer is who signs the tokens of service accounts.
const issuer = "https://issuer.test"

// A Mint signs service account tokens with the API server's key. The API server's own tokens live ten
// minutes or longer, too long for a test of expiry.
type Mint struct{ key *ecdsa.PrivateKey }

func newMint() (Mint, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return Mint{key}, err
}

// Leeway is how long after its end the server still takes a token, for clocks that differ.
const Leeway = time.Minute

// Token is what the server would have given the account, with this end. uid is the ServiceAccount
// object's.
func (m Mint) Token(namespace, name, uid string, end time.Time) (string, error) {
	type account struct {
		Name string `json:"name"`
		UID  string `json:"uid"`
	}
	type kubernetes struct {
		Namespace      string  `json:"namespace"`
		ServiceAccount account `json:"serviceaccount"`
	}
	claims := struct {
		Issuer     string     `json:"iss"`
		Audience   []string   `json:"aud"`
		Subject    string     `json:"sub"`
		Issued     int64      `json:"iat"`
		NotBefore  int64      `json:"nbf"`
		Expires    int64      `json:"exp"`
		Kubernetes kubernetes `json:"kubernetes.io"`
	}{
		issuer, []string{issuer}, fmt.Sprintf("system:serviceaccount:%s:%s", namespace, name),
		end.Add(-time.Hour).Unix(), end.Add(-time.Hour).Unix(), end.Unix(),
		kubernetes{namespace, account{name, uid}},
	}
	body, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	part := base64.RawURLEncoding.EncodeToString
	text := part([]byte(`{"alg":"ES256","typ":"JWT"}`)) + "." + part(body)
	hash := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, m.key, hash[:])
	if err != nil {
		return "", err
	}
	signature := make([]byte, 64) // RFC 7518, 3.4: both numbers, 32 octets each
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return text + "." + part(signature), nil
}
