package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestRestart(t *testing.T) {
	if f := fieldOf("sources.file.paths"); !f.is(restart) {
		t.Error("sources.file.paths needs no restart")
	}
	if f := fieldOf("ipvs.scheduler"); f.is(restart) {
		t.Error("ipvs.scheduler needs a restart")
	}
}

// Secrets do not come into the log.
func TestChangesHaveNoSecrets(t *testing.T) {
	var from, to Config
	to.Notify = Notify{Exec: []string{"/usr/local/bin/page", "--key", "secret"}, Webhook: "https://user:secret@alerts.example.net/secret?key=secret"}
	want := []Change{{"notify.exec", `[]`, `["/usr/local/bin/page", "…"]`}, {"notify.webhook", `""`, `"https://alerts.example.net/…"`}}
	if got := from.Changes(to); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// Nor into a report.
func TestNotifySecrets(t *testing.T) {
	n := Notify{Exec: []string{"/usr/local/bin/page", "--key", "hunter2", "--token=hunter3"}, Webhook: "https://user:hunter4@alerts.example.net/services/T0?key=hunter5"}
	if got, want := n.Secrets(), []string{"hunter4", "services/T0?key=hunter5", "hunter2", "hunter3"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := new(Notify).Secrets(); strings.Join(got, "") != "" {
		t.Errorf("without any: %q", got)
	}
}

func TestAdopt(t *testing.T) {
	running, next := Default(), Default()
	running.Mode, running.IPVS.Scheduler = "ipvs", "lc"
	next.File.Paths = nil
	next.IPVS.Scheduler, next.IPVS.NamePrefix = "wrr", "EDGE"
	next.FeatureGates = map[string]bool{"A": true}

	now, kept := running.Adopt(next)
	want := Default()
	want.Mode, want.IPVS.Scheduler = "ipvs", "wrr"
	if !reflect.DeepEqual(now, want) {
		t.Errorf("got  %+v\nwant %+v", now, want)
	}
	wantKept := []Kept{
		{"mode", `"ipvs"`, `""`},
		{"featureGates", `{}`, `{ "A" = true }`},
		{"ipvs.namePrefix", `"KUBE"`, `"EDGE"`},
		{"sources.file.paths", `["/etc/svcproxy/services.toml", "/etc/svcproxy/services.d/*.toml"]`, `[]`},
	}
	if !slices.Equal(kept, wantKept) {
		t.Errorf("kept %q", kept)
	}
	if got := running.Changes(now); !slices.Equal(got, []Change{{"ipvs.scheduler", `"lc"`, `"wrr"`}}) {
		t.Errorf("changes %q", got)
	}
	if _, kept := now.Adopt(now); kept != nil || now.Changes(now) != nil {
		t.Errorf("against itself: %q", kept)
	}
	for _, c := range running.Changes(next) {
		if strings.Contains(c.From+c.To, "\n") {
			t.Errorf("%q is more than a line", c)
		}
	}
}
