// Command kube-apiserver is upstream's, unchanged, built from the module proxy:
// the API server that the tests of the API server source speak with.
//
// It is a module of its own, so that nothing it needs gets into svcproxy's go.mod.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() { os.Exit(cli.Run(app.NewAPIServerCommand())) }
