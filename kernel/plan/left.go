package plan

import (
	"fmt"

	"github.com/svcproxy/svcproxy/kernel"
)

// fewLeft is how many virtual servers that kube-proxy left have a line of their own.
const fewLeft = 20

// leftWarnings name what kube-proxy left and nobody wants. It serves on: a node
// port, or a VIP that is local some other way, still answers.
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
