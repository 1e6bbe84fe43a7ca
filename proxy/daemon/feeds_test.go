//go:build !noapiserver

package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/apiserver"
	"github.com/svcproxy/svcproxy/sources/dns"
)

// TestStartWithoutAKubeconfig: a start with a kubeconfig that is missing has all sources. The files deliver their
// services, and the API server's source has an outage.
func TestStartWithoutAKubeconfig(t *testing.T) {
	dir := t.TempDir()
	main, services := filepath.Join(dir, "svcproxy.toml"), filepath.Join(dir, "services.toml")
	text := fmt.Sprintf("stateDir = %q\nclientConnection.kubeconfig = \"%s/none\"\nsources.file.paths = [%q]\n", dir, dir, services)
	for name, text := range map[string]string{main: text, services: web1} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f := config.AddFlags(flags)
	if err := flags.Parse([]string{"--config", main}); err != nil {
		t.Fatal(err)
	}
	cur, err := config.Start(config.Options{Flags: f, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{current: cur, log: newLog(os.Stderr)}
	files, err := d.files(d.setup())
	if err != nil {
		t.Fatal(err)
	}
	feeds, err := d.feeds(d.setup(), namedFiles{files, dns.New(dns.Options{})})
	if err != nil || len(feeds) != 3 {
		t.Fatalf("%d sources, %v; want 3", len(feeds), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	got := map[string]error{}
	for _, feed := range feeds[1:] {
		until, enough := context.WithCancel(ctx)
		err := feed.Source.Watch(until, func(table sources.Table, err error) {
			if got[feed.Name] = err; feed.Name == sources.Files && table.Services.Len() != 1 {
				t.Errorf("the files have %d services, want 1", table.Services.Len())
			}
			enough()
		})
		if err != nil {
			t.Error(err)
		}
		enough()
	}
	if err, emitted := got[sources.Files]; !emitted || err != nil {
		t.Errorf("files: emitted %t, %v", emitted, err)
	}
	if err := got[sources.APIServer]; !errors.As(err, new(*apiserver.OutageError)) {
		t.Errorf("API server: %v, want an outage", err)
	}
}
