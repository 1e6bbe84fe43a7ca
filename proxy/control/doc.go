// Package control is how the commands of svcproxy talk to the running daemon:
// HTTP over a unix socket, a server and its client.
//
// Whoever may open the socket may look, and ask for the files to be read again.
// Nothing else can be changed here: what is served is said in files. The server
// answers with functions it was given; it knows no loop and no kernel.
//
//	GET  /v1/status[?endpoints=none|detail=NAME,...] status.Status
//	GET  /v1/events[?after=SEQ][&follow=1]            one events.Event a line
//	POST /v1/reload[?wait=1]                          Reloaded
package control
