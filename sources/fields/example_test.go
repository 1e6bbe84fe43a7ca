package fields_test

import (
	"fmt"

	"github.com/svcproxy/svcproxy/sources/fields"
)

// Every problem has a line: a duplicate key as well as a value that its type refuses.
func Example() {
	tree, places, mistakes, _ := fields.Parse([]byte("name = \"web\"\nport = 70000\nport = 80\n"))
	for _, m := range mistakes {
		fmt.Printf("line %d: %s\n", m.Line, m)
	}
	document := fields.Node{At: places, V: tree}
	port, _ := document.Under("port")
	if _, err := fields.Port.Read(port); err != nil {
		fmt.Printf("line %d: %s %v\n", port.Line(), port.Key, err)
	}
	// Output:
	// line 3: duplicate key port, first given at line 2
	// line 2: port 70000 is not a port: must be 1 to 65535
}

// A table has a row for each key. The rows read the document and document the keys.
func ExampleTable() {
	type listener struct {
		port   uint16
		secure bool
	}
	rows := fields.Table[listener]{
		fields.Define("port", fields.At(func(l *listener) *uint16 { return &l.port }, fields.Port), "", "where it listens"),
		fields.Define("secure", fields.At(func(l *listener) *bool { return &l.secure }, fields.Bool), "false", "with TLS"),
	}
	for _, k := range rows.Keys("listener.") {
		fmt.Printf("%s (%s): %s\n", k.Path, k.Kind, k.Comment)
	}
	var l listener
	err := rows[0].Set(&l, fields.Node{Key: "port", V: int64(443)})
	fmt.Println(l.port, err)
	// Output:
	// listener.port (port number): where it listens
	// listener.secure (boolean): with TLS
	// 443 <nil>
}
