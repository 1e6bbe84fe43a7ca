package apiserver

import (
	"encoding/json"
	"os"
)

// A Kubeconfig is one server and one account.
type Kubeconfig struct {
	Server    string
	Authority []byte // a certificate in PEM
	Token     string
	TokenFile string // read again as the token changes
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

func (k Kubeconfig) user() map[string]string {
	if k.TokenFile != "" {
		return map[string]string{"tokenFile": k.TokenFile}
	}
	return map[string]string{"token": k.Token}
}
