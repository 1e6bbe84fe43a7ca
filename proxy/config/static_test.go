package config_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

// The decoder of services ignores the other keys of the main configuration and their duplicates. It reads
// the services as strictly as in a file of their own.
const services = `mode = "ipvs"
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

func TestStaticServices(t *testing.T) {
	table, _, problems := file.DecodeServices("static", "svcproxy.toml", []byte(services))
	if table.Services.Len() != 1 || table.Services.At(0).Origin != (sources.Origin{Source: "static", File: "svcproxy.toml", Line: 5}) {
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

func TestNoStaticServices(t *testing.T) {
	if table, _, problems := file.DecodeServices("static", "svcproxy.toml", []byte("mode = \"\"\n")); table.Services.Len()+len(problems) > 0 {
		t.Error(table, problems)
	}
}

// Watch emits the last table, even if it missed one in between.
func TestStaticSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, _, _ := file.DecodeServices("static", "svcproxy.toml", []byte(services))
		source := config.NewStatic(first, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		done := make(chan error)
		go func() {
			done <- source.Watch(ctx, func(table sources.Table, err error) {
				got = append(got, fmt.Sprint(table.Services.Len(), " ", err))
			})
		}()
		synctest.Wait()
		source.Set(sources.Table{}, nil)
		source.Set(first, errors.New("refused"))
		synctest.Wait()
		cancel()
		err := <-done
		if err != nil || got[0] != "1 <nil>" || got[len(got)-1] != "1 refused" {
			t.Error(got, err)
		}
	})
}

var _ sources.Source = (*config.Static)(nil)
