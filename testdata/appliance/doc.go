// Package appliance installs svcproxy's packages on a node with systemd and
// lives with them: start, edit, reload, crash, hang, upgrade, remove, purge and
// boot, under the traffic of a client who must not notice. And it runs the tests of
// the packages that speak with a kernel as the shipped unit runs svcproxy: in its
// sandbox, as its user.
//
// The node is a guest of testdata/guest that boots a Debian root of its own. The
// tests here build the packages, two versions of them, and boot it; what happens
// on the node is in script/*.txtar, run there by this package's own test binary.
package appliance
