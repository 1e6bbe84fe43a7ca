// Package control connects the commands of svcproxy with the running daemon: HTTP
// over a Unix socket, with a server and its client.
//
// Who may open the socket may read the status and reload the files. Nothing else
// can be changed through it: files say what is served. The server answers with
// functions that the caller gives; it knows no loop and no kernel.
//
//	GET  /v1/status[?endpoints=none|detail=NAME,...] status.Status
//	GET  /v1/events[?after=SEQ][&follow=1]            one events.Event a line
//	GET  /v1/table?source=NAME                        Table
//	POST /v1/reload[?wait=1]                          Reloaded
package control
