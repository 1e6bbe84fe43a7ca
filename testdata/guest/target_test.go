package main

import (
	"slices"
	"strings"
	"testing"
)

func TestTarget(t *testing.T) {
	for _, test := range []struct {
		target                  target
		name, release, programs string
	}{
		{target{"bookworm", "amd64"}, "bookworm", "bookworm", "/tree/bin"},
		{target{"trixie-backports", "amd64"}, "trixie-backports", "trixie", "/tree/bin"},
		{target{"trixie", "arm64"}, "trixie.arm64", "trixie", "/tree/bin/arm64"},
	} {
		if got := test.target.String(); got != test.name {
			t.Errorf("%+v is called %s, want %s", test.target, got, test.name)
		}
		if got := test.target.release(); got != test.release {
			t.Errorf("%s has the root of %s, want %s", test.name, got, test.release)
		}
		if got := test.target.programs("/tree/bin/guest"); got != test.programs {
			t.Errorf("%s: programs in %s, want %s", test.name, got, test.programs)
		}
	}
	if _, err := (target{"trixie", "s390x"}).emulation(); err == nil {
		t.Error("a machine of s390x was made")
	}
}

// What counts instructions has those of a real processor, and the rest does without slow ones.
func TestArgumentsOfAMD64(t *testing.T) {
	k := kernel{Dir: "/k", Target: target{"bookworm", "amd64"}}
	for _, counts := range []bool{false, true} {
		m := machine{CPUs: 2, Memory: 512, Icount: counts}
		all := strings.Join(m.arguments(k, emulations["amd64"], "/d"), " ")
		if strings.Contains(all, "-cpu max ") != counts || strings.Contains(all, " clearcpuid=rep_good ") == counts {
			t.Errorf("icount %t: %s", counts, all)
		}
	}
}

func TestArgumentsOfArm64(t *testing.T) {
	m := machine{CPUs: 2, Memory: 512}
	k := kernel{Dir: "/k", Target: target{"trixie", "arm64"}}
	args := m.arguments(k, emulations["arm64"], "/d")
	if !slices.Equal(args[:4], []string{"-M", "virt", "-cpu", "cortex-a72"}) {
		t.Errorf("machine %q", args[:4])
	}
	if all := strings.Join(args, " "); !strings.Contains(all, "console=ttyAMA0") || strings.Contains(all, "tsc") {
		t.Errorf("kernel arguments of another machine: %s", all)
	}
	// The emulation is shared by all machines.
	if more := m.arguments(k, emulations["arm64"], "/other"); strings.Contains(strings.Join(args, " "), "/other") || len(more) != len(args) {
		t.Error("the arguments of two machines are not their own")
	}
}
