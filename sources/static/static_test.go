package static_test

import (
	"context"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/static"
)

// The other keys of the main configuration are not looked at, nor their duplicates; the services are as
// strictly as in a file of their own.
const main = `mode = "ipvs"
mode = "iptables"
[ipvs]
scheduler = "wrr"
[services.web]
clusterIP = "10.96.0.1"
ports = [ { port = 80 } ]
[services.typo]
clusterip = "10.96.0.2"
ports = [ { port = 80, port = 81 } ]
`

func TestDecode(t *testing.T) {
	table, _, problems := static.Decode("svcproxy.toml", []byte(main))
	if len(table.Services) != 1 || table.Services[0].Origin != (sources.Origin{Source: "static", File: "svcproxy.toml", Line: 5}) {
		t.Errorf("%+v", table)
	}
	var got []string
	for _, p := range problems {
		got = append(got, p.Error())
	}
	want := `svcproxy.toml:9: typo: unknown key "clusterip", did you mean "clusterIP"?
svcproxy.toml:10: duplicate key port, first given at line 10`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

func TestNone(t *testing.T) {
	if table, _, problems := static.Decode("svcproxy.toml", []byte("mode = \"\"\n")); len(table.Services)+len(problems) > 0 {
		t.Error(table, problems)
	}
}

func TestWatch(t *testing.T) {
	table, _, _ := static.Decode("svcproxy.toml", []byte(main))
	ctx, cancel := context.WithCancel(context.Background())
	emitted := 0
	err := static.Source{Table: table}.Watch(ctx, func(got sources.Table, err error) {
		emitted++
		if len(got.Services) != 1 || err != nil {
			t.Error(got, err)
		}
		cancel()
	})
	if emitted != 1 || err != nil {
		t.Error(emitted, err)
	}
}

var _ sources.Source = static.Source{}
