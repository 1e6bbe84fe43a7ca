# Go may be installed where Debian's PATH does not look.
export PATH := $(PATH):/usr/local/go/bin
export CGO_ENABLED := 0

GO          ?= go
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2
GUEST        = bin/guest
# Packages outside ./... that are checked like the rest: wildcards skip testdata.
EXTRA_PKGS   = ./testdata/apiserver/... ./testdata/bench ./testdata/broken ./testdata/guest ./testdata/lab ./testdata/modetest ./testdata/monitor ./testdata/random ./testdata/traffic ./testdata/world ./testdata/demo
# What make appliance tests: checked like the rest, but not tested with them.
APPLIANCE    = ./testdata/appliance
# Packages whose tests need a kernel with IPVS: run once more in the guest. The others below kernel run on this machine's kernel, and some
# of their tests on the guest's, in the unit's sandbox (make appliance).
KERNEL_PKGS ?= ./kernel/host ./kernel/ipvs ./kernel/link ./testdata/lab ./testdata/random
# Of two packages more the tests that say other things there: scripts with a condition of IPVS, and the comparison with iptables.
IPVS_SCRIPTS = $(shell grep -lF 'ipvs]' testdata/script/*.txtar | sed 's:.*/::; s:.txtar$$::' | paste -sd '|')

# build: the static binary, bin/svcproxy
build:
	$(GO) build -trimpath -o bin/svcproxy .

# guest: the test guest with its Debian packages and its kernel, see testdata/guest/README.md
guest: $(GUEST)
	$(GUEST) install
	$(GUEST) kernel

$(GUEST): $(wildcard testdata/guest/*.go) go.mod
	$(GO) build -trimpath -ldflags='-s -w' -o $@ ./testdata/guest

# apiserver: the real kube-apiserver that tests speak with, built into the cache, see testdata/apiserver/README.md, and a real kube-proxy
apiserver:
	$(GO) run ./testdata/apiserver/build bin

# test: everything: lint, tests on this kernel, on the guest's, on Debian 13's, on a node with systemd; three jobs at once,
# the longest first, but test-servers, which mostly waits, before test-here; a failure ends none of the others
test: build guest apiserver release-tools bin/nfpm bin/legacy bin/svcproxy-former
	@$(MAKE) --no-print-directory -k -j3 appliance test-traffic test-legacy test-kernel test-servers test-here test-modes test-trixie test-fallback test-native-rules lint

# test-here: every test that this machine's kernel can run, but those under traffic (test-modes) and test-servers. A missing program is
# a failure (make guest installs them), unless SVCPROXY_NOSKIP is empty
test-here test-servers: export SVCPROXY_NOSKIP ?= 1
test-here: apiserver release-tools bin/nfpm
	$(GO) test -timeout 30m ./... $(filter-out $(SERVERS) ./testdata/traffic,$(EXTRA_PKGS))

# test-servers: tests with a real API server, Prometheus and a browser, which mostly wait. A missing program is a failure here, too
SERVERS      = ./testdata/apiserver/... ./testdata/monitor
test-servers: apiserver
	$(GO) test -timeout 30m $(SERVERS)

# test-kernel: those of packages that speak with a kernel, in the guest; with 50 random tables, or as many as SVCPROXY_RANDOM_TABLES says.
# TestWordsAgree speaks with none
test-kernel: export SVCPROXY_RANDOM_TABLES ?= 50
test-kernel:
	$(GUEST) test -noskip -timeout 30m -skip '^TestWordsAgree$$' $(KERNEL_PKGS)
	$(GUEST) test -noskip -timeout 10m -run '^TestScripts$$/^($(IPVS_SCRIPTS))$$|^TestIptablesSave$$' . ./proxy/mode/ipvs

# Tests of rules, which run with both back ends of iptables. The others run with one, by turns; make test-matrix runs all with both.
BOTH_BACK_ENDS = TestEveryKindOfAddress|TestWhomTheBackendSees|TestSourceRanges|TestHostPortsAreRefused|TestPingOfVIPs|TestLocalhostNodePorts|TestMasqueradeBit|TestFlushedTables
# What has guests of its own (test-fallback), and what needs none: it runs in each suite of the machine's own kernel. They keep their
# turns, so that all others keep theirs.
ELSEWHERE      = TestFallback|TestRelaySaysWhichEndpointIsSilent|TestFallbackToNFTables|TestHalfWrittenFileRemovesNothing|TestModeUserspace|TestRelayWithoutFilesIsSaid|TestClientsWithoutNFTables
# The tests that testdata/traffic/natively names with one of these words, as a pattern.
natively       = ^($(shell awk '/^($(1)) / { print $$2 }' testdata/traffic/natively | paste -sd '|'))$$
# The tests in a guest whose turn it is, 0 or 1, as a pattern.
in-turn        = $(GO) test -list . ./testdata/traffic | grep -v "$$(test -e bin/svcproxy-former && echo '^$$' || echo TestUpgradeAndBackUnderTraffic)" | \
		awk '/^Test/ && !/$(call natively,once|each|matrix)/ && (n++ % 2 == $(1) || /^($(BOTH_BACK_ENDS))/) && !/^($(ELSEWHERE))$$/ { list = list "|" $$0 } \
		END { if (!n) exit 1; print "^(" substr(list, 2) ")$$" }'
# Before a command that tests under traffic: at most two tests that fail run again, alone. The machine may be slow.
AGAIN        = $(GUEST) again --
# test-traffic: the whole program under traffic, in the guest
test-traffic: bin/svcproxy-former
	tests=$$($(call in-turn,0)) && $(AGAIN) $(GUEST) test -noskip -timeout 85m -run "$$tests" ./testdata/traffic

# test-native-rules: mode ipvs with rules of nftables, the tests of rules; make test-matrix runs all
test-native-rules: build guest
	SVCPROXY_TEST_RULES=nftables $(AGAIN) $(GUEST) test -timeout 40m -run '^($(BOTH_BACK_ENDS))' ./testdata/traffic

# What binds VIPs, and differs on kernels that have dummy devices.
ON_DEVICES     = ^(TestVIPBindingChangesUnderTraffic|TestVIPThatAppearsOnALink)$$
# test-legacy: the same with the legacy back end of iptables and kube-proxy's layout of the rules, and mode iptables on a kernel with dummy devices
test-legacy: export PATH := $(CURDIR)/bin/legacy:$(PATH)
test-legacy: export SVCPROXY_TEST_LAYOUT = kube-proxy
test-legacy: bin/legacy bin/svcproxy-former
	tests=$$($(call in-turn,1)) && $(AGAIN) $(GUEST) test -noskip -timeout 85m -run "$$tests" ./testdata/traffic
	SVCPROXY_TEST_MODE=iptables $(AGAIN) $(GUEST) test -noskip -timeout 20m -run '$(ON_DEVICES)' ./testdata/traffic

# test-endurance: nightly: 14 kills under traffic, 1,000 connections over nodes that fail, upgrade from an earlier commit and back,
# kube-proxy and back, and SVCPROXY_ENDURANCE random steps of orders, files and restarts, in each mode; make test has a few of each. SVCPROXY_RANDOM_SEED chooses the steps
ENDURANCE    = ^(TestCrowdBlindsNobody|TestFlowsOutliveTheirNode|TestFlowsInTunnelsOutliveTheirNode|TestRollingUpgrade|TestThereAndBackWithKubeProxy|TestOneServiceAtATime|TestKilledDuringALoad|TestKilledUnderTraffic|TestUpgradeAndBackUnderTraffic|TestRandomOrders|TestPortsOfMasqueradedClients)$$
test-endurance: export SVCPROXY_ENDURANCE ?= 1000
test-endurance: build guest apiserver bin/svcproxy-former
	for mode in iptables userspace; do \
		SVCPROXY_TEST_MODE=$$mode $(OWN_MOUNTS) $(GO) test -count=1 -v -timeout 60m -run '$(ENDURANCE)' ./testdata/traffic || exit 1; \
	done
	$(GUEST) test -v -timeout 3h -run '$(ENDURANCE)' ./testdata/traffic

# The program of an earlier commit, from which TestUpgradeAndBackUnderTraffic upgrades. A clone without it has no such test.
FORMER = b3452fbc183a350d6e1f198216be0692675e1b9a
bin/svcproxy-former:
	@git cat-file -e $(FORMER)^{commit} 2>/dev/null || { echo "no $@: this clone lacks commit $(FORMER)"; exit 0; }; \
	rm -rf bin/former && mkdir -p bin/former && git archive $(FORMER) | tar -x -C bin/former && \
	$(GO) build -C bin/former -buildvcs=false -trimpath -o ../svcproxy-former . && rm -r bin/former

# test-matrix: each test under traffic in each mode, with both back ends, two cells at once: an hour. What a mode does not have is skipped.
test-matrix: build guest bin/legacy
	@$(MAKE) --no-print-directory -k -j2 $(foreach mode,ipvs iptables userspace,matrix/$(mode)/nft matrix/$(mode)/legacy) matrix/ipvs/native matrix/nftables/nft

# A cell of the matrix: a mode with a back end. The guest has mode ipvs; modes that need no IPVS run on this machine's own kernel, and then in
# the guest what that kernel does not have.
TOOLS_nft    = bin
TOOLS_legacy = bin/legacy
# Mode ipvs has two layouts of its rules, one for each back end.
LAYOUT_nft    = lean
LAYOUT_legacy = kube-proxy
CELL         = SVCPROXY_TEST_DOCTOR=all SVCPROXY_TEST_MODE=$(notdir $(@D)) SVCPROXY_TEST_LAYOUT=$(LAYOUT_$(@F)) PATH=$(CURDIR)/$(TOOLS_$(@F)):$$PATH
matrix/ipvs/native:
	SVCPROXY_TEST_DOCTOR=all SVCPROXY_TEST_RULES=nftables $(GUEST) test -timeout 90m ./testdata/traffic
matrix/ipvs/%:
	$(CELL) $(GUEST) test -timeout 90m ./testdata/traffic
matrix/iptables/% matrix/nftables/% matrix/userspace/%:
	@mkdir -p bin/$(@D)
	$(CELL) $(OWN_MOUNTS) $(GO) test -count=1 -v -timeout 30m ./testdata/traffic >bin/$@.log || { grep -A 20 -e '--- FAIL' bin/$@.log || tail -n 40 bin/$@.log; exit 1; }
	$(CELL) $(GUEST) test -timeout 30m -run "^($$(sed -n 's/^ *--- SKIP: \([A-Za-z0-9]*\).*/\1/p' bin/$@.log | sort -u | paste -sd'|'))\$$" ./testdata/traffic

# test-fallback: which mode svcproxy chooses in three guests, one without IPVS, one without IPVS and iptables, one without iptables and ipset;
# and in one without nftables, that limits for clients are not served: two minutes
test-fallback: build guest bin/legacy
	for modules in ip_vs ip_vs,x_tables; do \
		$(GUEST) test --where qemu --load dummy --append module_blacklist=$$modules -noskip -run '^TestFallback$$' ./testdata/traffic || exit 1; \
	done
	$(GUEST) test --where qemu --load dummy,ip_vs --append module_blacklist=x_tables,ip_tables,ip_set,nft_compat -noskip \
		-run '^(TestFallback|TestFallbackToNFTables)$$' ./testdata/traffic
	PATH=$(CURDIR)/bin/legacy:$$PATH $(GUEST) test --where qemu --load dummy,ip_vs --append module_blacklist=nf_tables -noskip \
		-run '^TestClientsWithoutNFTables$$' ./testdata/traffic

# test-modes: those under traffic in the other modes, on this machine's own kernel, which may lack IPVS and dummy devices; without root
# all skip. Mode iptables has half of the tests with each of its back ends, those about rules with both. They mostly wait, so all go at once
OWN_MOUNTS = $(if $(filter 0,$(shell id -u)),unshare --mount)
test-modes: $(GUEST) bin/legacy bin/svcproxy-former
	@$(MAKE) --no-print-directory -k -j4 test-iptables test-iptables-legacy test-nftables test-userspace
test-iptables-legacy: export PATH := $(CURDIR)/bin/legacy:$(PATH)
test-iptables test-iptables-legacy: export SVCPROXY_TEST_MODE = iptables
test-nftables: export SVCPROXY_TEST_MODE = nftables
test-userspace: export SVCPROXY_TEST_MODE = userspace
# The tests of this machine's own kernel whose turn it is, 0 or 1, as a pattern.
in-turn-here = $(GO) test -list . ./testdata/traffic | awk '/^Test/ && !/$(call natively,matrix)/ && (/$(call natively,once)/ ? !$(1) : /$(call natively,each)/ || /^($(BOTH_BACK_ENDS))/ || n++ % 2 == $(1)) \
		{ list = list "|" $$0 } END { if (!list) exit 1; print "^(" substr(list, 2) ")$$" }'
test-iptables: TURN = 0
test-iptables-legacy: TURN = 1
test-iptables test-iptables-legacy:
	tests=$$($(call in-turn-here,$(TURN))) && $(AGAIN) $(OWN_MOUNTS) $(GO) test -count=1 -timeout 30m -run "$$tests" ./testdata/traffic
test-nftables test-userspace:
	$(AGAIN) $(OWN_MOUNTS) $(GO) test -count=1 -timeout 30m -skip '$(call natively,once|matrix)' ./testdata/traffic

# test-trixie: a sample of Debian 13, in two guests: what svcproxy says to that kernel with that Debian's tools, and each way it has packets go
ON_TRIXIE = ^(TestEveryKindOfAddressReachesEveryBackend|TestForwardingMethods|TestVIPBindingChangesUnderTraffic|TestSCTPIsBalanced|TestRulesMoveToNFTablesAndBack)$$
test-trixie: export SVCPROXY_GUEST_SUITE = trixie
test-trixie: export SVCPROXY_GUEST_ROOT = 1
test-trixie:
	$(GUEST) kernel
	$(GUEST) root
	$(GUEST) test -noskip -timeout 10m -run 'TestContract|TestChangeOfBackEnds' ./kernel/host
	$(AGAIN) $(GUEST) test -noskip -timeout 20m -run '$(ON_TRIXIE)' ./testdata/traffic

# test-systems: all of it on other systems than this machine's, see testdata/README.md: Debian 13, the newest kernel of its backports,
# Debian 13 on arm64; and netlink's numbers on a processor of the other byte order. Two steps at once, the longest first. A step says
# when it begins and how it ended after how long; its output is in bin/systems. Hours without KVM; make systems/trixie/demo is one step.
STEPS        = trixie/traffic trixie/packages trixie.arm64/packages trixie/kernel trixie.arm64/traffic trixie.arm64/kernel \
		trixie-backports/kernel trixie-backports/traffic trixie/demo trixie-backports/demo trixie.arm64/demo s390x/nl
test-systems: build guest bin/nfpm
	$(GUEST) install qemu-system-arm qemu-user-static
	@$(MAKE) --no-print-directory -k -j2 $(STEPS:%=systems/%)
# systems/SYSTEM: the steps of one system
systems/trixie systems/trixie-backports systems/trixie.arm64 systems/s390x:
	@$(MAKE) --no-print-directory -k $(filter $@/%,$(STEPS:%=systems/%))

systems/trixie/% systems/trixie-backports/% systems/trixie.arm64/%: export SVCPROXY_GUEST_ROOT = 1
systems/trixie/% systems/trixie.arm64/%: export SVCPROXY_GUEST_SUITE = trixie
systems/trixie-backports/%: export SVCPROXY_GUEST_SUITE = trixie-backports
systems/trixie.arm64/%: export SVCPROXY_GUEST_ARCH = arm64
# What of its traffic and of its packages a system has: Debian 13 all of both. An emulated arm64 is slow.
systems/trixie/%: TESTS = .
systems/trixie-backports/%: TESTS = ^($(BOTH_BACK_ENDS))
systems/trixie.arm64/%: TESTS = ^($(BOTH_BACK_ENDS)|TestRemovedEndpointDrains|TestDeadEndpointGetsNoConnections)
# Which the guest's roots are without: Ansible is large.
ANSIBLE_TESTS = ^TestRole(OfTables|IsLinted)$$
systems/trixie/%: SCRIPTS = .
systems/trixie.arm64/%: SCRIPTS = ^TestNode$$/^(deb|newcomer|pair)$$

SPEAKERS     = ./kernel/host ./kernel/nl ./kernel/ipvs ./kernel/nft ./kernel/ipset ./kernel/conntrack ./kernel/link ./testdata/lab ./testdata/random
recorded     = @mkdir -p bin/$(@D); began=$$(date +%s); took() { echo "$$1 $@ $$(($$(date +%s) - began))s"; }; echo "     $@: bin/$@.log"; \
		if { $(1); } >bin/$@.log 2>&1; then took 'ok  '; else took FAIL; grep -A 20 -e '--- FAIL' bin/$@.log || tail -n 40 bin/$@.log; exit 1; fi
systems/%/demo: systems/%/ready
	$(call recorded,$(GUEST) run -- bin/demo)
systems/%/kernel: systems/%/ready
	$(call recorded,$(GUEST) test -v -timeout 60m $(SPEAKERS))
systems/%/traffic: systems/%/ready
	$(call recorded,$(AGAIN) $(GUEST) test -v -timeout 4h -run '$(TESTS)' -skip '$(ANSIBLE_TESTS)' ./testdata/traffic)
systems/%/packages: systems/%/ready bin/nfpm
	$(call recorded,$(GO) test -v -count=1 -timeout 4h -run '$(SCRIPTS)' $(APPLIANCE))

systems/trixie/ready systems/trixie-backports/ready: $(GUEST) build
	$(GUEST) kernel
	$(GUEST) root
	$(GO) build -trimpath -o bin/demo ./testdata/demo
# Backports' kernel has Debian 13's root.
systems/trixie-backports/ready: systems/trixie/ready
# Arm64's programs are in bin/arm64, which the guest finds as bin.
systems/trixie.arm64/ready: $(GUEST)
	mkdir -p bin/arm64
	for program in . ./testdata/guest ./testdata/demo; do GOARCH=arm64 $(GO) build -trimpath -o bin/arm64/ $$program || exit 1; done
	$(GUEST) kernel
	$(GUEST) root

# On a processor of the other byte order: the numbers of netlink's messages, which all packages below kernel write and read by kernel/nl.
# QEMU translates little of what netlink says, so tests that speak with a kernel are left out, and those of other packages all begin with it.
systems/s390x/nl:
	$(call recorded,GOARCH=s390x $(GO) test -count=1 -short -timeout 60m -exec qemu-s390x-static -skip 'Kernel|ExampleConn' ./kernel/nl)

# What the legacy back end's tools are called, under the names that are looked for.
bin/legacy:
	mkdir -p $@
	for tool in iptables ip6tables; do for does in "" -save -restore; do ln -sf "$$(command -v $$tool-legacy$$does)" $@/$$tool$$does; done; done

# lint: format, lines of at most 120 characters outside of tests, vet, staticcheck
lint:
	@! LC_ALL=C.UTF-8 grep -rnE --include='*.go' --exclude='*_test.go' --exclude-dir=testdata --exclude-dir=kerneltest --exclude-dir=fake --exclude-dir=bin '^.{121,}$$' . || { echo "longer than 120 characters"; exit 1; }
	@unformatted=$$($(GO)fmt -l .); test -z "$$unformatted" || { echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; }
	$(GO) vet ./... $(EXTRA_PKGS) $(APPLIANCE)
	$(GO) run $(STATICCHECK) ./... $(EXTRA_PKGS) $(APPLIANCE)

# demo: what svcproxy does, shown with real traffic in the guest
demo: build guest
	$(GO) build -trimpath -o bin/demo ./testdata/demo
	$(GUEST) run -- bin/demo

# packages: deb, rpm and a tarball for amd64 and arm64 in bin/packages; the same commit gives the same bytes
packages: bin/nfpm
	rm -rf bin/packages
	GO="$(GO)" packaging/build bin/packages

# release: what a release of VERSION publishes, in bin/release: packages, tarballs, their parts (SBOM), notes, sums. With KEY, the fingerprint
# of a key of gpg's that is older than the commit, also signatures and an apt repository. The same commit gives the same bytes.
release: release-tools bin/nfpm
	@test -z "$$(git status --porcelain)" || { echo "make release: the tree has changes that are not committed"; exit 1; }
	rm -rf bin/release
	GO="$(GO)" $(GO) run ./packaging/release make bin/release "$(VERSION)" $(KEY)

# test-release: that a release for both architectures has the same bytes twice; make test makes one for amd64
test-release: release-tools bin/nfpm $(GUEST)
	$(GUEST) install
	SVCPROXY_NOSKIP=1 SVCPROXY_RELEASE=whole $(GO) test -count=1 -v -timeout 30m -run '^TestRelease$$' ./packaging/release

# What makes and signs an apt repository.
release-tools:
	@dpkg -s apt-utils gpg gpg-agent >/dev/null 2>&1 || { apt-get -q update; apt-get -q install --yes --no-install-recommends apt-utils gpg gpg-agent; }

# outdated: newer versions of the modules that svcproxy, its tests and its packager are made with
outdated:
	@for dir in . packaging/nfpm; do \
		modules=$$($(GO) list -C $$dir -deps -test -f '{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}' ./... tool 2>/dev/null | sort -u); \
		$(GO) list -C $$dir -m -u -f '{{with .Update}}{{$$.Path}} {{$$.Version}}, newer: {{.Version}}{{end}}' $$modules | grep . || \
			echo "$$dir: all are the newest"; \
	done

# appliance: the packages on a node with systemd: install, run, break, upgrade, remove, boot; the kernel's tests in the unit's sandbox
appliance: bin/nfpm $(GUEST)
	$(GUEST) install
	$(GUEST) kernel
	$(GUEST) root
	$(GO) test -count=1 -timeout 88m $(APPLIANCE)

bin/nfpm: packaging/nfpm/go.mod
	$(GO) build -C packaging/nfpm -trimpath -o ../../$@ github.com/goreleaser/nfpm/v2/cmd/nfpm

# race: nightly: every test of ./... with the race detector, RACE_COUNT times, one package after the other; the detector needs a C
# compiler
RACE_COUNT ?= 3
race: export CGO_ENABLED = 1
race:
	@command -v cc >/dev/null || { echo "make race needs a C compiler: apt-get install gcc libc6-dev"; exit 1; }
	$(GO) test -race -p 1 -count=$(RACE_COUNT) -timeout 3h ./...

# fuzz: new random kernels for the planner; then every fuzz target for FUZZTIME; finds stay as seeds in the package's testdata.
# Go would spend a minute on making each new input small; ten tries are enough.
FUZZTIME ?= 60s
fuzz:
	$(GO) test -count=1 -run '^Test' ./kernel ./kernel/plan -rapid.seed=0 -rapid.checks=20000
	@for dir in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -r -n1 dirname | sort -u); do \
		for target in $$($(GO) test -list '^Fuzz' $$dir | grep '^Fuzz'); do \
			echo "$$dir $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$dir || exit 1; \
		done; \
	done

# bench: what svcproxy costs next to other programs, in about an hour and a half on two processors. Results are in bin/bench.results. A guest measures
# wall time of IPv4, which wants a machine with nothing else to do (bench-wall is that alone, in 45 minutes). Then two guests at once count instructions
# (IPv4, IPv6), and this machine measures many health checks.
# SVCPROXY_BENCH=all: larger sizes too, up to 50000x2, hours. BENCHFLAGS='-run loop': one scenario. BASE=FOLDER: compare with earlier results, by benchstat.
BENCHSTAT   ?= golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
BENCH_SIZES  = $(if $(SVCPROXY_BENCH),-sizes $(SVCPROXY_BENCH))
bench: bench-wall
	$(MAKE) --no-print-directory -j2 bench-IPv4 bench-IPv6
	$(OWN_MOUNTS) bin/bench -clock native -out bin/bench.results $(BENCHFLAGS)
ifdef BASE
	for run in instructions-IPv4 instructions-IPv6 wall native; do test ! -f $(BASE)/$$run.txt || $(GO) run $(BENCHSTAT) $(BASE)/$$run.txt bin/bench.results/$$run.txt; done
endif

bench-wall: build guest
	$(GUEST) install haproxy
	$(GO) build -trimpath -tags noapiserver -o bin/svcproxy-noapiserver .
	$(GO) build -trimpath -o bin/bench ./testdata/bench
	mkdir -p bin/bench.results
	$(GUEST) run --where qemu --memory 4096 --out bin/bench.results -- bin/bench -clock wall -families IPv4 $(BENCH_SIZES) $(BENCHFLAGS)

# What make bench measures of one family; both processors have something to do then.
bench-IPv4 bench-IPv6: bench-%:
	$(GUEST) run --where qemu --icount --memory 4096 --out bin/bench.results -- bin/bench -clock instructions -name instructions-$* -families $* $(BENCH_SIZES) $(BENCHFLAGS)

# clean: what make made in the tree (the kernel cache stays, see guest)
clean:
	rm -rf bin

.PHONY: build guest apiserver test test-here test-servers test-kernel test-traffic test-legacy test-fallback test-endurance test-matrix test-modes test-native-rules test-iptables test-iptables-legacy test-nftables test-userspace test-trixie test-systems systems/trixie systems/trixie-backports systems/trixie.arm64 systems/s390x systems/trixie/ready systems/trixie-backports/ready systems/trixie.arm64/ready systems/s390x/nl lint demo packages release test-release release-tools outdated appliance race fuzz bench bench-wall bench-IPv4 bench-IPv6 clean
