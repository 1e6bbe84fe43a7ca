package traffic

import (
	"cmp"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// modeToTest is the mode of SVCPROXY_TEST_MODE. The default is ipvs.
func modeToTest() string { return cmp.Or(os.Getenv("SVCPROXY_TEST_MODE"), "ipvs") }

// rulesToTest gives the configurations of mode ipvs the layout of SVCPROXY_TEST_LAYOUT and the back end of
// SVCPROXY_TEST_RULES, unless they name one. The defaults are svcproxy's own.
func rulesToTest(mode string) map[string]string {
	keys := map[string]string{}
	for key, variable := range map[string]string{"rules.layout": "SVCPROXY_TEST_LAYOUT", "rules.backend": "SVCPROXY_TEST_RULES"} {
		if value := os.Getenv(variable); value != "" && mode == "ipvs" {
			keys[key] = value
		}
	}
	return keys
}

// native reports whether nftables writes the rules of mode ipvs in this run.
func native() bool { return os.Getenv("SVCPROXY_TEST_RULES") == "nftables" && modeToTest() == "ipvs" }

// named is the mode that a test's configuration names, by the test's name.
var named sync.Map

// names notes the mode that a configuration names, if it names one.
func names(t *testing.T, main string) {
	if m := namedMode.FindStringSubmatch(main); m != nil {
		named.Store(t.Name(), m[1])
	}
}

var namedMode = regexp.MustCompile(`(?m)^mode = "(\w+)"`)

// modeOf returns the mode that a test runs in: the one that its configuration names, or
// else the one to test. A test that does not exist in that mode skips.
func modeOf(t *testing.T) string {
	t.Helper()
	if mode, ok := named.Load(t.Name()); ok {
		return mode.(string)
	}
	name, _, _ := strings.Cut(t.Name(), "/")
	if mode, ok := named.Load(name); ok {
		return mode.(string)
	}
	mode := modeToTest()
	if why := notNative(name); native() && why != "" {
		t.Skipf("not with rules of nftables: %s", why)
	}
	only, why := limitOf(name)
	if only == nil || slices.Contains(only, mode) {
		return mode
	}
	t.Skipf("in mode %s only: %s", strings.Join(only, ", "), why)
	return ""
}

// limitOf returns the modes that a test exists in, nil for all.
func limitOf(test string) (modes []string, why string) {
	for _, l := range limits {
		if slices.Contains(strings.Fields(l.tests), test) {
			return strings.Fields(l.modes), l.why
		}
	}
	return nil, ""
}

// limits are the tests that exist in some modes only, and why. All others run in each.
var limits = []struct{ modes, why, tests string }{
	{"ipvs iptables userspace", "wants affinity remembered, and mode nftables computes it", `
		TestAffinityOfAClientWhoseBackendDrains`},
	{"ipvs iptables userspace", "runs an earlier version, which has no mode nftables", `
		TestUpgradeAndBackUnderTraffic`},
	{"ipvs iptables userspace", "wants tools of iptables that may not be run to end cleanup, and mode nftables needs none", `
		TestCleanupRunsTheToolsOfRoot`},
	{"ipvs iptables", "is about the back ends of iptables", `
		TestBackEndChangesUnderTraffic
		TestOldBackEndServesNobody
		TestRuleOfNFTHidesItsTable
		TestCleanupSharesTheLegacyLock`},
	{"iptables", "is about what rules of nat send past INPUT, and legacy tables that are not written", `
		TestExplainLooksEverywhere`},
	{"ipvs", "is about schedulers", `
		TestSchedulerFlags
		TestNoNewClientIsRefusedWhileAnEndpointDrains
		TestConnectionsOfARemovedRealServerEnd
		TestNoSchedulerRefusesWhileAnEndpointIsOut
		TestNoSchedulerRefusesAfterATakeOver`},
	{"ipvs", "slows the load down by system calls of netlink", `
		TestServicesAreServedWhileATableIsLoaded`},
	{"ipvs", "counts system calls to IPVS", `
		TestAdoptionAndIdleChecksWriteAndExecuteNothing
		TestOneEndpointCostsFourCallsAtAnySize
		TestHealthOfOneEndpointCostsFourCalls
		TestRestartInTheMiddleOfAnOutage
		TestLoadIsBatched
		TestScrapeAsksTheSameAtAnySize
		TestIdleChecksLoseNobodyAllowed`},
	{"ipvs userspace", "wants connections in turn, or exact weights", `
		TestSlowStart
		TestConnectionsOfADeadEndpoint
		TestEveryTypeOfCheckSeesAServerFail`},
	{"ipvs", "reads or sets IPVS's kernel parameters", `
		TestReadOnlySysctlsKeepVIPsClosed
		TestAffinityEndsAtItsTimeout
		TestKernelParametersOfTheConfiguration
		TestConntrackTimeoutsOfTheKernelAreReplaced`},
	{"ipvs", "reads IPVS's counters", `
		TestMetricsTellWhatTheKernelCounts`},
	{"ipvs userspace", "wants connections counted, which mode iptables does not", `
		TestStatusTellsWhatHappensToConnections`},
	{"ipvs", "edits IPVS and its ipsets", `
		TestKilledDuringALoad
		TestDriftByHandHeals
		TestIPVSClearedByHandServesAgain
		TestExplainNamesFaults
		TestFlushedTablesAreBackInSeconds`},
	{"ipvs iptables nftables", "is about tracked connections of clients, which the relay's are not", `
		TestSilentEndpointsAreSaid`},
	{"userspace", "is about connections of the relay", `
		TestRelaySaysWhichEndpointIsSilent`},
	{"ipvs", "is about ipsets", `
		TestKubeProxyFindsItsSetsInOurs
		TestSetsWithATimeoutAreReplaced
		TestSetOfAnotherTypeThatAForeignRuleHoldsIsWaitedFor`},
	{"ipvs", "makes a foreign virtual server", `
		TestForeignVirtualServersByPolicy
		TestKeepalivedIsTakenOverAndGivenBack
		TestForeignVirtualServerOnANodePortsNumberStays
		TestForeignVirtualServerOnAWantedAddressIsAConflict
		TestStatusTellsWhatIsWrong
		TestReloadWaitIsHonest
		TestNothingIsSaidTwice`},
	{"ipvs", "takes over virtual servers", `
		TestImportTakesOver
		TestVRRPStaysWithKeepalived
		TestKubeProxysNodeIsTakenOverWithoutTouchingIPVS
		TestOwnershipSetEmptiedWhileStoppedDisownsNothing
		TestWhatKubeProxyLeftIsSaid`},
	{"ipvs", "is about INPUT, which packets to VIPs do not reach in other modes", `
		TestFirewallInTheWayIsReported`},
	{"ipvs", "wants a drain to outlive a restart, which rules and the relay do not remember", `
		TestDrainGoesOnOverARestart`},
	{"ipvs userspace", "wants times that mode iptables has a test of its own for", `
		TestDrainEndsAtItsDeadline`},
	{"ipvs userspace", "waits for the last connection, and mode iptables does not count them", `
		TestDrainThatEnds`},
	{"ipvs", "counts connections that outlive svcproxy: rules do not count them, and the relay's end with it", `
		TestOperatorDrains
		TestOperatorDrainsTheNode`},
	{"ipvs", "changes the layout of rules, which mode ipvs alone has", `
		TestLayoutChangesUnderTraffic
		TestRulesMoveToNFTablesAndBack
		TestFallbackToNFTables`},
	{"ipvs iptables nftables", "waits for what mode userspace does not send to clients that it has served: ICMP", `
		TestUDPScaledToZeroIsRefused`},
	{"ipvs iptables nftables", "asks what rules do, and mode userspace has none", `
		TestExplainIsTrue
		TestFlushedRulesetIsRepairedAtOnce
		TestExplainKnowsTheWayBack
		TestEndpointsOnAnUnfilteredBridgeAreReported
		TestMasqueradeBit
		TestRoutedVIPs
		TestHostPortsAreRefusedOnVIPs
		TestHostPortsStayClosed
		TestSourceRanges
		TestPingOfVIPs
		TestAPIServersServiceOnALink
		TestConfigurationReloads`},
	{"ipvs iptables nftables", "wants backends to see the client, and the relay asks by itself", `
		TestDetectLocal
		TestLocalWithoutALocalEndpoint`},
	{"ipvs iptables nftables", "wants connections to outlive svcproxy, and the relay's end with it", `
		TestConnectionsOutliveSvcproxy
		TestManyConnectionsOutliveSvcproxy
		TestVIPThatAppearsOnALink
		TestNothingGoodLeavesTheKernelServing
		TestVIPBindingChangesUnderTraffic`},
	{"ipvs iptables nftables", "stops the process or takes its file descriptors, and the relay serves with both", `
		TestOwnFaultsTakeNothingDown`},
	{"ipvs iptables nftables", "wants IPv6 VIPs answered on a link that are routes, which Linux does if it forwards", `
		TestVIPsOnTheClientsLink`},
	{"ipvs iptables nftables", "is about forwarding, which the relay does not need", `
		TestRoutesOfAdvertisementsStay`},
	{"ipvs iptables nftables", "is about tracked connections", `
		TestConnectionTableSize
		TestTrackedFlowsOfWhatIsGone`},
	{"ipvs iptables nftables", "is about SCTP, which the relay does not have", `
		TestSCTPIsBalanced`},
	{"ipvs", "wants an SCTP endpoint gone at once, and mode iptables leaves its associations to connection tracking", `
		TestRemovedSCTPEndpointIsGoneAtOnce`},
	{"ipvs", "is about policy Local, which kube-proxy's rules do not apply to what the node and its pods ask", `
		TestWhomTheBackendSees`},
	{"ipvs userspace", "limits connections, and mode iptables does not count them", `
		TestMaxConnections`},
	{"ipvs", "is about IPVS's ways to forward", `
		TestChecksViaTheVIP
		TestForwardingMethods
		TestDirectRoutingOverAGateway
		TestForwardingMethodChangesUnderConnections
		TestDefaultForwardingMethod
		TestFirewallMarks
		TestTunnelsTellTheClientTheirMTU
		TestOnePacket
		TestDirectPacketsAreInvalidToConnectionTracking
		TestFlowsOutliveTheirNode
		TestFlowsInTunnelsOutliveTheirNode
		TestRollingUpgrade
		TestPairOfMasqueradingNodes
		TestMaintenanceOfAPair
		TestMigratedPair
		TestConnectionSync`},
	{"ipvs", "makes faults of IPVS", `
		TestDoctorNamesFaults`},
	{"iptables userspace", "keeps BFD's shipped times, which a guest does not", `
		TestOthersServeWhenANodeFallsSilent`},
	{"iptables", "is about routing daemons, to which all modes are alike", `
		TestBIRDAnnouncesVIPs
		TestFRRAnnouncesVIPs
		TestKeepalivedFollowsSvcproxy`},
	{"ipvs", "names its modes", `
		TestChangeOfMode`},
}

// limitOf takes the first line that has a name.
func TestLimitsAreTests(t *testing.T) {
	var names []string
	for _, l := range limits {
		names = append(names, strings.Fields(l.tests)...)
	}
	wantTestsOnce(t, names)
}

// A name that is no test would leave a test out of nothing, and a test that runs nowhere would not be missed.
func TestNativelyAreTests(t *testing.T) {
	text, err := os.ReadFile("natively")
	must(t, err)
	var names []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		if len(f) != 2 || !slices.Contains([]string{"once", "each", "matrix"}, f[0]) {
			t.Fatalf("want once, each or matrix, and a test: %q", line)
		}
		if only, why := limitOf(f[1]); f[0] != "matrix" && only != nil && !slices.Contains(only, "iptables") {
			t.Errorf("%s runs in mode %s only: %s", f[1], strings.Join(only, ", "), why)
		}
		names = append(names, f[1])
	}
	wantTestsOnce(t, names)
}

// balances reports whether the mode gives connections to endpoints in turn. Modes iptables
// and nftables choose at random.
func balances(t *testing.T) bool { return !ruled(t) }

// ruled reports whether rules choose endpoints: in modes iptables and nftables.
func ruled(t *testing.T) bool {
	mode := modeOf(t)
	return mode == "iptables" || mode == "nftables"
}

// tries is how often a test asks until it has found all of few backends, if asking in
// turn takes that many questions. If the choice is random, 60 questions miss one of
// three backends once in 10^10 times.
func tries(t *testing.T, inTurn int) int {
	if balances(t) {
		return inTurn
	}
	return max(60, inTurn)
}

// slack is by how much a number of connections may differ from the one wanted, if inTurn
// is what connections that are given in turn may: five standard deviations of a random
// choice.
func slack(t *testing.T, want, share, inTurn float64) float64 {
	if balances(t) {
		return inTurn
	}
	return 5 * math.Sqrt(want*(1-share))
}

// notNative says why a test of mode ipvs does not exist where nftables writes the rules; "" if it does.
func notNative(test string) string {
	for _, l := range nativeLimits {
		if slices.Contains(strings.Fields(l.tests), test) {
			return l.why
		}
	}
	return ""
}

var nativeLimits = []struct{ why, tests string }{
	{"is about the two back ends of iptables", `
		TestBackEndChangesUnderTraffic
		TestOldBackEndServesNobody
		TestKubeProxysRulesInTheOtherBackEnd
		TestRuleOfNFTHidesItsTable
		TestCleanupRunsTheToolsOfRoot
		TestCleanupSharesTheLegacyLock`},
	{"is about ipsets", `
		TestKubeProxyFindsItsSetsInOurs
		TestSetsWithATimeoutAreReplaced
		TestSetOfAnotherTypeThatAForeignRuleHoldsIsWaitedFor`},
	{"compares rules with the words of iptables-save", `
		TestNamesOfTheConfiguration
		TestConfigurationReloads`},
	{"reads the counters of iptables' rules, which ours do not have in nftables", `
		TestIdleChecksLoseNobodyAllowed`},
	{"edits ipsets and rules of iptables by hand: package nft tests the same edits", `
		TestFlushedTablesAreBackInSeconds
		TestOwnershipSetEmptiedWhileStoppedDisownsNothing
		TestExplainNamesFaults`},
	{"wants our rules to accept what iptables' chains drop: nftables has no such rules, and other names of these chains", `
		TestFirewallInTheWayIsReported`},
	{"wants a tool of iptables to fail, and rules of nftables need none", `
		TestNothingIsSaidTwice`},
	{"runs an earlier version, which has no rules of nftables", `
		TestUpgradeAndBackUnderTraffic`},
	{"chooses the back end itself, or its layout", `
		TestLayoutChangesUnderTraffic
		TestRulesMoveToNFTablesAndBack`},
	{"is about rules that kube-proxy shares, which it cannot in nftables", `
		TestThereAndBackWithKubeProxy`},
}
