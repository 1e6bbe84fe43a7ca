// Package appliance installs svcproxy's packages on a node with systemd, and tests
// start, edit, reload, crash, hang, upgrade, remove, purge and boot under a
// client's traffic that must not be disturbed. And it runs tests of the packages
// that speak with a kernel as the shipped unit runs svcproxy: in its sandbox, as
// its user, one for each kind of socket, file, program and call.
//
// The node is a guest of testdata/guest that boots a Debian root of its own. The
// tests build two versions of the packages and boot the node. The steps on the
// node are in script/*.txtar; this package's test binary runs them there. One of
// them boots three nodes in that guest, behind a router.
package appliance
