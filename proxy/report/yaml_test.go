package report

import (
	"strings"
	"testing"
)

func TestYAML(t *testing.T) {
	const in = `# hunter2
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: ipvs # hunter2
clientConnection: {kubeconfig: /etc/kubeconfig, master: "https://admin:hunter2@10.0.0.1"}
shared: &hook https://alerts.example.net/plain
notify:
  # hunter2
  webhook: https://alerts.example.net/hunter2
  exec: [/usr/local/bin/page, hunter2]
other: {webhook: *hook}
services:
  web:
    healthCheck: {type: http, path: "/x?key=hunter2", headers: {X-Key: hunter2}}
---
kind: ConfigMap
data:
  config.conf: |
    # hunter2
    notify:
      webhook: https://alerts.example.net/hunter2
    mode: ipvs
  note: "two\nlines"
`
	const want = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: ipvs
clientConnection: {kubeconfig: /etc/kubeconfig, master: "<left out>"}
shared: &hook https://alerts.example.net/plain
notify:
    webhook: <left out>
    exec: [<left out>, <left out>]
other: {webhook: <left out>}
services:
    web:
        healthCheck: {type: http, path: "<left out>", headers: {X-Key: <left out>}}
---
kind: ConfigMap
data:
    config.conf: |
        notify:
            webhook: <left out>
        mode: ipvs
    note: |
        two lines
`
	if got := YAML(in); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	const applied = "metadata:\n  annotations:\n    last-applied: '{\"data\": {\"config.conf\": \"notify:\\n  webhook: hunter2\"}}'\n"
	if got := YAML(applied); strings.Contains(got, "hunter2") || !strings.Contains(got, "webhook") {
		t.Errorf("a document within a document:\n%s", got)
	}
	for _, broken := range []string{"notify: {webhook: hunter2", "a: 1\n---\n\tnotify: hunter2\n", "notify:\n webhook: hunter2\n  x: y\n"} {
		if got := YAML(broken); strings.Contains(got, "hunter2") || !strings.Contains(got, "cannot be read") {
			t.Errorf("%q:\n%s", broken, got)
		}
	}
}
