package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// serveByKubeProxy begins a real kube-proxy in its mode nftables, with the services of a task over UDP.
func (p *pass) serveByKubeProxy(l *lab.Lab, t *task) (stop func(), err error) {
	dir, err := os.MkdirTemp("", "bench-kube-proxy-")
	if err != nil {
		return nil, err
	}
	kubeconfig, file := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "config.yaml")
	services, slices := objectsOf(t)
	server, err := l.Node.ServeObjects(kubeconfig, services, slices)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(filepath.Dir(p.bench.binary), "kube-proxy"), "--config", file)
	stop = func() {
		if cmd.Process != nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
		server.Close()
		os.RemoveAll(dir)
	}
	err = os.WriteFile(file, fmt.Appendf(nil, `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
hostnameOverride: node
clusterCIDR: 10.2.0.0/16,fd00:2::/32
nodePortAddresses: ["primary"]
clientConnection: {kubeconfig: %q, contentType: application/json, acceptContentTypes: application/json}
conntrack: {maxPerCore: 0}
`, kubeconfig), 0o644)
	if err != nil {
		return stop, err
	}
	if err := l.Node.Start(cmd); err != nil {
		return stop, err
	}
	return stop, lab.Eventually(kubeProxyLimit, func() error {
		r, err := l.Node.HTTP(10 * time.Second).Get("http://127.0.0.1:10249/metrics")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		metrics, err := io.ReadAll(r.Body)
		if err == nil && len(kubeProxySynced.FindAll(metrics, -1)) < 2 {
			err = fmt.Errorf("kube-proxy has not programmed both families")
		}
		time.Sleep(time.Second)
		return err
	})
}

// kubeProxyLimit is how long kube-proxy may take until its rules are there, on an emulated processor.
const kubeProxyLimit = 20 * time.Minute

// kubeProxySynced matches the metric of each family that kube-proxy has programmed.
var kubeProxySynced = regexp.MustCompile(`(?m)^kubeproxy_sync_proxy_rules_last_timestamp_seconds\{.* [1-9]`)

// objectsOf returns the Services and EndpointSlices of a task's services over UDP, with commas between them.
func objectsOf(t *task) (services, slices string) {
	var all, endpoints []string
	for _, s := range t.table.Services.All() {
		all = append(all, fmt.Sprintf(`{"metadata": {"namespace": "default", "name": %q, "uid": %[1]q}, "spec": {"type": "ClusterIP", "clusterIP": %q,
			"clusterIPs": [%[2]q], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
			"ports": [{"protocol": "UDP", "port": 80, "targetPort": 8081}]}}`, s.Name, s.ClusterIPs[0]))
		var list []string
		for _, e := range s.Endpoints {
			list = append(list, fmt.Sprintf(`{"addresses": [%q], "conditions": {"ready": true}}`, e.Addr))
		}
		endpoints = append(endpoints, fmt.Sprintf(`{"metadata": {"namespace": "default", "name": "%s-4", "labels": {"kubernetes.io/service-name": %[1]q}},
			"addressType": "IPv4", "ports": [{"name": "", "protocol": "UDP", "port": 8081}], "endpoints": [%s]}`, s.Name, strings.Join(list, ", ")))
	}
	return strings.Join(all, ", "), strings.Join(endpoints, ", ")
}
