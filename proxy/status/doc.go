// Package status is how svcproxy stands, as one value: the daemon, its last sync,
// its sources, what is wrong, and every service with its virtual servers and
// endpoints. It has a JSON form, which is stable, and texts for a person.
//
// Of is pure: it reads no kernel, no clock and no file. Reader is the one that
// asks. Nothing here decides what is served, and nothing changes anything.
package status
