package plan_test

import (
	"fmt"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

// A virtual server is ours where the set of our virtual servers has it. Only there is a real server added and another
// one drained; that of another program stays as it is.
func ExampleDiff() {
	want, err := kernel.ParseObserved(`
create KUBE-VIRTUAL-SERVER hash:ip,port family inet hashsize 1024 maxelem 65536
add KUBE-VIRTUAL-SERVER 10.96.0.20,tcp:80
-A -t 10.96.0.20:80 -s rr
-a -t 10.96.0.20:80 -r 10.2.1.10:8080 -m -w 1
-a -t 10.96.0.20:80 -r 10.2.1.12:8080 -m -w 1
`)
	if err != nil {
		fmt.Println(err)
		return
	}
	have, err := kernel.ParseObserved(`
create KUBE-VIRTUAL-SERVER hash:ip,port family inet hashsize 1024 maxelem 65536
add KUBE-VIRTUAL-SERVER 10.96.0.20,tcp:80
-A -t 10.96.0.20:80 -s rr
-a -t 10.96.0.20:80 -r 10.2.1.10:8080 -m -w 1
-a -t 10.96.0.20:80 -r 10.2.1.11:8080 -m -w 1
-A -t 192.0.2.9:25 -s wlc
`)
	if err != nil {
		fmt.Println(err)
		return
	}
	have.Names = kernel.DefaultNames
	fmt.Print(plan.Once(want.State, have))
	// Output:
	// ~ -e -t 10.96.0.20:80 -r 10.2.1.11:8080 -m -w 0 (was -a -t 10.96.0.20:80 -r 10.2.1.11:8080 -m -w 1)
	// + -a -t 10.96.0.20:80 -r 10.2.1.12:8080 -m -w 1
	// 1 to add, 1 to change, 0 to remove, 1 draining
}
