package nl_test

import (
	"encoding/binary"
	"fmt"
	"log"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel/nl"
)

// A message is Begin, the header of its protocol, attributes and End. A batch holds any number.
func ExampleBatch() {
	var b nl.Batch
	for _, name := range []string{"CLUSTER-IP", "EXTERNAL-IP"} {
		b.Begin(unix.NFNL_SUBSYS_IPSET<<8|2, unix.NLM_F_CREATE) // IPSET_CMD_CREATE
		b.Nfgen(unix.AF_INET)
		b.U8(1, 6) // IPSET_ATTR_PROTOCOL
		b.Text(2, name)
		data := b.Nest(7)
		b.U32BE(19, 65536) // IPSET_ATTR_MAXELEM
		b.EndNest(data)
		b.End()
	}
	fmt.Println(b.Len(), "messages,", b.Size(), "bytes, error", b.Err())
	// Output: 2 messages, 112 bytes, error <nil>
}

// Attrs walks attributes in place. Check Err after the walk: a wrong length ends it.
func ExampleAttrs() {
	order := binary.NativeEndian
	p := append(order.AppendUint16(order.AppendUint16(nil, 8), unix.IFLA_IFNAME), "lo\x00\x00"...)
	p = order.AppendUint32(order.AppendUint16(order.AppendUint16(p, 8), unix.IFLA_MTU), 65536)
	a := nl.ParseAttrs(p)
	for a.Next() {
		switch a.Type() {
		case unix.IFLA_IFNAME:
			fmt.Println("name", a.Text())
		case unix.IFLA_MTU:
			fmt.Println("mtu", a.U32())
		}
	}
	fmt.Println("error", a.Err())
	// Output:
	// name lo
	// mtu 65536
	// error <nil>
}

// Dump lists the links of this network namespace.
func ExampleConn_Dump() {
	conn, err := new(nl.Dialer).Dial(unix.NETLINK_ROUTE)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	var b nl.Batch
	b.Begin(unix.RTM_GETLINK, 0)
	b.Raw(make([]byte, unix.SizeofIfInfomsg))
	b.End()
	names := 0
	err = conn.Dump(&b, func() { names = 0 }, func(payload []byte) error {
		a := nl.ParseAttrs(payload[unix.SizeofIfInfomsg:])
		for a.Next() {
			if a.Type() == unix.IFLA_IFNAME {
				names++
			}
		}
		return a.Err()
	})
	fmt.Println(names > 0, err)
	// Output: true <nil>
}
