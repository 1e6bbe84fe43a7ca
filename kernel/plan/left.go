package plan

import (
	"fmt"

	"github.com/svcproxy/svcproxy/kernel"
)

// fewLeft is how many virtual servers left by kube-proxy have a line of their own.
const fewLeft = 20

// leftWarnings names the virtual servers that kube-proxy left and no service wants. They
// go on serving: a node port, or a VIP that is local in another way, still answers.
func leftWarnings(left []kernel.Virtual) []string {
	var lines []string
	for i, v := range left {
		if i == fewLeft-1 && len(left) > fewLeft {
			return append(lines, fmt.Sprintf("%d more virtual servers are left by kube-proxy: svcproxy cleanup --leftovers removes them with all of ours", len(left)-i))
		}
		lines = append(lines, fmt.Sprintf("virtual server %s was left by kube-proxy, no service wants it, and it goes on serving: ipvsadm -D %s removes it", v.Key, v.Key))
	}
	return lines
}
