// Package control connects the commands of svcproxy with the running daemon: HTTP
// over a Unix socket, with a server and its client.
//
// Who may open the socket may read the status, reload the files and order endpoints out
// of service or back. Root may set tables of services, others with control.tables = true.
// Nothing else can be changed through it: files say what is served.
// An order is kept with the user who gave it, whom the socket names (SO_PEERCRED). The
// server answers with functions that the caller gives; it knows no loop and no kernel.
//
//	GET  /v1/status[?endpoints=none|detail=NAME,...] status.Status
//	GET  /v1/events[?after=SEQ][&follow=1]            one events.Event a line
//	GET  /v1/table?source=NAME                        Table
//	GET  /v1/explain?to=ADDRESS:PORT&proto=..|service= explain.Answer or Services
//	GET  /v1/kernel                                   the text of a kernel.Observed
//	GET  /v1/metrics                                  the metrics of Prometheus
//	POST /v1/reload[?wait=1]                          Reloaded
//	GET  /v1/health[?service=NAME,...]                status.Status
//	GET  /v1/probes?target=SERVICE/ENDPOINT           Probes
//	GET  /v1/overrides                                health.Overrides
//	POST /v1/node?drain=0|1[&why=TEXT]                {}
//	POST /v1/order?verb=VERB&target=TARGET[&...]      Ordered
//	GET  /v1/tables                                   []file.Stored
//	GET  /v1/tables/NAME                              the text, its digest as ETag
//	PUT  /v1/tables/NAME[?wait=1]                     TableSet; the body is TOML or JSON
//	DELETE /v1/tables/NAME[?wait=1]                   TableSet
//
// PUT and DELETE take If-Match with a digest, PUT also If-None-Match: *.
package control
