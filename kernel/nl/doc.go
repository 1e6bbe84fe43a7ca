// Package nl sends netlink messages in batches: many messages in one send, and one acknowledgement
// back.
//
// The kernel adapters build messages in one reusable buffer (Batch), send them and learn which
// failed (Conn.Send). They read tables (Conn.Dump) and walk attributes without allocating
// (Attrs).
//
// It does not know what a message means, it does not receive notifications, and a Conn does not
// serve two goroutines at once.
//
// # Why one acknowledgement
//
// The kernel handles the messages of a datagram in order, inside the send, and continues after one
// that fails. It reports a failure whether or not the message asked for an acknowledgement
// (net/netlink/af_netlink.c, netlink_rcv_skb). So only the last message of a datagram must ask:
// when its reply comes, all are done. A batch that succeeds costs one send and one receive. With an
// acknowledgement for each message it would cost a receive each, and overflow the receive buffer at
// 277 of them.
package nl
