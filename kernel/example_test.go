package kernel_test

import (
	"fmt"

	"github.com/svcproxy/svcproxy/kernel"
)

// What the kernel's tools print is a State, and a State prints what they read.
func ExampleParseObserved() {
	o, err := kernel.ParseObserved(`
# ipvsadm-save -n
-A -t 10.96.0.20:80 -s rr
-a -t 10.96.0.20:80 -r 10.2.1.11:8080 -m -w 1
-a -t 10.96.0.20:80 -r 10.2.1.10:8080 -m -w 3
# ipset save
create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 1024 maxelem 65536
add KUBE-CLUSTER-IP 10.96.0.20,tcp:80
`)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, v := range o.Virtuals {
		fmt.Println(v)
		for _, r := range o.Reals.Of(v.Key) {
			fmt.Println(r)
		}
	}
	fmt.Println(o.Entries.Slice()[0])
	// Output:
	// -A -t 10.96.0.20:80 -s rr
	// -a -t 10.96.0.20:80 -r 10.2.1.10:8080 -m -w 3
	// -a -t 10.96.0.20:80 -r 10.2.1.11:8080 -m -w 1
	// add KUBE-CLUSTER-IP 10.96.0.20,tcp:80
}
