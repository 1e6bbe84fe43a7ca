package traffic

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// ills are the tests that leave a node in trouble, with the checks of doctor that may say so. At the end of all others
// doctor says nothing.
var ills = []struct{ checks, why, tests string }{
	{"vips status", "another host has the VIP", `
		TestVIPOfAnotherHostIsNotAnnounced
		TestVIPOfAnotherSvcproxyIsNotBound
		TestGatewayBecomesAVIP`},
	{"others", "it has a virtual server of another program", `
		TestFirewallMarks
		TestReloadWaitIsHonest`},
	{"status", "a service is left out, in part or whole", `
		TestNewcomerTakesNothing
		TestProgramsKeepTheirPorts`},
	{"status", "an endpoint answers nobody", `
		TestSilentEndpointsAreSaid`},
	{"status packets drops", "health checks fail at the end", `
		TestProbesHaveTheirMarkSourceAndInterface
		TestNodesDefaultsOfHealthChecks
		TestProgramsOfChecksHaveNoAccess
		TestCrowdBlindsNobody
		TestRestartInTheMiddleOfAnOutageInModeIPTables
		TestOwnFaultsTakeNothingDown`},
	{"disk folders status configuration", "its disk is full or read-only", `
		TestNoRoomForStateIsNoOutage`},
	{"certificates", "a certificate has expired or soon will", `
		TestDeadEndpointGetsNoConnections
		TestEveryTypeOfCheckSeesAServerFail`},
	{"configuration files status", "the last file is refused", `
		TestLoopbackIsRefusedAsAVIP
		TestConfigurationReloads
		TestNothingIsSaidTwice
		TestBrokenFileKeepsServing`},
}

// illOf returns the checks of doctor that may find something at the end of a test.
func illOf(test string) []string {
	test, _, _ = strings.Cut(test, "/")
	for _, i := range ills {
		if slices.Contains(strings.Fields(i.tests), test) {
			return strings.Fields(i.checks)
		}
	}
	return nil
}

// asksDoctor reports whether doctor is asked at the end of a test. It takes a second, so it is at the end of one test of
// sixteen, which depends on its name and the mode. With SVCPROXY_TEST_DOCTOR=all it is at the end of all.
// Only the guest is known to be healthy itself; the variable also asks elsewhere.
func asksDoctor(test string) bool {
	if env := os.Getenv("SVCPROXY_TEST_DOCTOR"); env != "" || !emulated() {
		return env == "all"
	}
	hash := fnv.New32a()
	fmt.Fprint(hash, test, modeToTest())
	return hash.Sum32()%16 == 0
}

// wantNoAlarm asks doctor at the end of a test that passed, if svcproxy still runs.
func wantNoAlarm(t *testing.T, p *lab.Proxy) {
	t.Helper()
	if t.Failed() || !p.Running() || !asksDoctor(t.Name()) {
		return
	}
	may := illOf(t.Name())
	// What the test did last may be under way on a slow machine.
	if err := lab.Eventually(patience, func() error { return alarm(p, may) }); err != nil {
		t.Errorf("doctor at the end: %v", err)
	}
}

// alarm is what doctor says, but for checks that may find something.
func alarm(p *lab.Proxy, may []string) error {
	out, _, err := p.Command("doctor", "-o", "json")
	if err != nil {
		return err
	}
	var a examined
	start, end := strings.Index(out, "{"), strings.LastIndex(out, "}")
	if start < 0 || end < start {
		return fmt.Errorf("no JSON: %s", out)
	}
	if err := json.Unmarshal([]byte(out[start:end+1]), &a); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	for _, f := range a.Findings {
		if !slices.Contains(may, f.Check) {
			return fmt.Errorf("%s: %s", f.Check, f.Text)
		}
	}
	if len(a.Unchecked) > 0 && !slices.Contains(may, "configuration") {
		return fmt.Errorf("not checked: %v", a.Unchecked)
	}
	return nil
}

func TestIllsAreTests(t *testing.T) {
	var names []string
	for _, i := range ills {
		names = append(names, strings.Fields(i.tests)...)
	}
	wantTestsOnce(t, names)
}

// wantTestsOnce wants each name to be that of a test, and to stand once.
func wantTestsOnce(t *testing.T, names []string) {
	t.Helper()
	tests, seen := testNames(t, "."), map[string]bool{}
	for _, name := range names {
		if !tests[name] {
			t.Errorf("%s is no test", name)
		}
		if seen[name] {
			t.Errorf("%s stands twice", name)
		}
		seen[name] = true
	}
}
