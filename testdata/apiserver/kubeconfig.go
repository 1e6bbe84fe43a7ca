package apiserver

import (
	"encoding/json"
	"os"
)

// A Kubeconfig is one server and one account.
type Kubeconfig struct {
	Server    string
	Authority []byte // a certificate in PEM

	// One of these, by which the server knows the account.
	Token     string
	TokenFile string // read again as the token changes
	Cert, Key []byte // PEM
}

// Write writes it as JSON, which is YAML.
func (k Kubeconfig) Write(path string) error {
	type named map[string]any
	text, err := json.MarshalIndent(named{
		"apiVersion":      "v1",
		"kind":            "Config",
		"current-context": "tests",
		"contexts":        []named{{"name": "tests", "context": named{"cluster": "tests", "user": "tests"}}},
		"clusters":        []named{{"name": "tests", "cluster": named{"server": k.Server, "certificate-authority-data": k.Authority}}},
		"users":           []named{{"name": "tests", "user": k.user()}},
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}

func (k Kubeconfig) user() map[string]any {
	switch {
	case k.TokenFile != "":
		return map[string]any{"tokenFile": k.TokenFile}
	case k.Cert != nil:
		return map[string]any{"client-certificate-data": k.Cert, "client-key-data": k.Key}
	}
	return map[string]any{"token": k.Token}
}
