package config

import (
	"reflect"
	"testing"

	"github.com/svcproxy/svcproxy/sources"
)

// TestHealthDefaults: the defaults of table health are those of package sources, and each key changes what checks get.
func TestHealthDefaults(t *testing.T) {
	if got, want := Default().Health.Defaults(), sources.DefaultHealthCheck(); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	usual := sources.DefaultHealthCheck().OnNode(sources.DefaultHealthCheck())
	for key, v := range map[string]any{
		"interval": "9s", "timeout": "9s", "fall": int64(9), "rise": int64(9), "fastInterval": "9s", "downInterval": "9s", "jitter": 0.4,
		"onDown": "cut", "onAllDown": "closed", "minHealthy": "9%", "slowStart": "9s",
	} {
		c := Default()
		if err := fieldOf("health."+key).set(&c, v); err != nil {
			t.Errorf("%s %v", key, err)
		}
		if got := sources.DefaultHealthCheck().OnNode(c.Health.Defaults()); got == usual {
			t.Errorf("%s changes no check", key)
		}
	}
	// These are limits of all checks together.
	limits := []string{"MaxProbesPerSecond", "MaxInFlight", "ExecDirs", "ExecUser", "ExecMaxRunning", "MassFailure"}
	if n := reflect.TypeFor[Health]().NumField(); n != 11+len(limits) {
		t.Errorf("%d fields", n)
	}
}
