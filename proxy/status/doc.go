// Package status describes a running svcproxy as one value: the daemon, its last
// sync, its sources, its problems, and every service with its virtual servers and
// endpoints. The value has a stable JSON form (JSON.md), and text forms for
// people: Print, and the live views Watch and Top.
//
// New is pure: it reads no kernel, clock or file. Reader collects its input. The
// package only describes: it never decides what is served.
package status
