package apiserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Errors quote nothing of a kubeconfig: those who read the log or the status may not read it.
func TestKubeconfigIsNotQuoted(t *testing.T) {
	const head = "apiVersion: v1\nkind: Config\ncurrent-context: a\n" +
		"contexts: [{name: a, context: {cluster: a, user: a}}]\n"
	const cluster = "clusters: [{name: a, cluster: {server: \"https://127.0.0.1:1\"}}]\n"
	for name, text := range map[string]string{
		"another file":   "root:$6$sesame:19000:0:99999:7:::\nbin:*:19000::::::\n",
		"not YAML":       head + "users: [{name: a, user: {token: \"sesame\n",
		"text for users": head + cluster + "users: sesame\n",
		"text for a map": head + cluster + "users: [sesame]\n",
		"a list":         head + cluster + "users: [{name: a, user: {token: [sesame]}}]\n",
		"not base64":     head + cluster + "users: [{name: a, user: {client-key-data: \"sesame!\"}}]\n",
		"JSON":           `{"users": "sesame", "sesame": `,
		"another kind":   "apiVersion: sesame/v1\nkind: sesame\n",
		"a URL":          head + "clusters: [{name: a, cluster: {server: \"https://u:sesame@a b\"}}]\nusers: []\n",
		"a proxy": head + "clusters: [{name: a, cluster: {server: \"https://127.0.0.1:1\", " +
			"proxy-url: \"http://u:sesame@a b\"}}]\nusers: [{name: a, user: {token: x}}]\n",
		"no key": head + cluster +
			"users: [{name: a, user: {client-key-data: c2VzYW1l, client-certificate-data: c2VzYW1l}}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "kubeconfig")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			err := Check(Options{Kubeconfig: path})
			if err == nil || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "sesame") {
				t.Errorf("said %v", err)
			}
		})
	}
}
