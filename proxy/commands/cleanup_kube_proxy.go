package commands

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/svcproxy/svcproxy/kernel/machine"
	"github.com/svcproxy/svcproxy/proxy/cli"
)

// errKubeProxy is wrapped by the error about a kube-proxy that serves with the objects which cleanup would remove.
var errKubeProxy = errors.New("serves this node in mode ipvs with the sets, rules and " +
	"virtual servers that svcproxy had")

// besideKubeProxy refuses to clean objects with kube-proxy's names from a node that kube-proxy in mode ipvs serves: it
// has taken them over, and removes by itself what it does not want. In its other modes nothing of it is ours, but for
// rules that plan.LeftRules knows. Only a process of root is believed: any user can give a program this name.
func besideKubeProxy() error {
	for _, p := range machine.Processes() {
		uid, known := machine.UserOf(p.PID)
		if p.Name != "kube-proxy" || !known || uid != 0 {
			continue
		}
		mode, known := kubeProxyMode(machine.Arguments(p.PID), func(path string) ([]byte, error) {
			return os.ReadFile(machine.Within(p.PID, path))
		})
		if known && mode != "ipvs" {
			continue
		}
		err := fmt.Errorf("kube-proxy (process %d) %w", p.PID, errKubeProxy)
		if !known {
			err = fmt.Errorf("%w, unless its configuration, which cannot be read, has another mode", err)
		}
		return &cli.Error{Code: cli.Failed, Err: err, Hint: "leave them to it; or stop kube-proxy first, which ends service"}
	}
	return nil
}

// kubeProxyMode returns the mode of a kube-proxy with these arguments; "" is its default, iptables. With
// --config the file alone decides. It is not known if the file cannot be read or is no YAML.
func kubeProxyMode(args []string, read func(path string) ([]byte, error)) (mode string, known bool) {
	file := ""
	for i, arg := range args {
		name, value, given := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !given && i+1 < len(args) {
			value = args[i+1]
		}
		switch {
		case !strings.HasPrefix(arg, "-"):
		case name == "proxy-mode":
			mode = value
		case name == "config":
			file = value
		}
	}
	if file == "" {
		return mode, true
	}
	text, err := read(file)
	if err != nil {
		return "", false
	}
	var configuration struct{ Mode string }
	if yaml.Unmarshal(text, &configuration) != nil {
		return "", false
	}
	return configuration.Mode, true
}
