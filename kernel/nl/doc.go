// Package nl speaks netlink in batches: many messages in one send, one acknowledgement back.
//
// It is what the kernel adapters stand on: building messages into one reusable buffer (Batch),
// sending them and learning which of them failed (Conn.Send), reading tables (Conn.Dump), and
// walking attributes without allocating (Attrs).
//
// It refuses to know what a message means, to listen to notifications, and to serve two
// goroutines at once on one Conn.
//
// # Why one acknowledgement
//
// The kernel handles a datagram of netlink messages in order, inside the send itself, and goes on
// past a message that fails. It reports a failure whether or not the message asked for an
// acknowledgement (net/netlink/af_netlink.c, netlink_rcv_skb), so only the last message of a
// datagram has to ask: its reply says that all the others have been dealt with. A batch that
// succeeds costs one send and one receive, where an acknowledgement for each message costs a
// receive each and overflows the receive buffer at 277 of them.
package nl
