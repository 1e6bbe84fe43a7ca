// Package convert reads the configurations of other load balancers as services: what ipvsadm
// saves, keepalived.conf, ldirectord.cf, haproxy.cfg and the objects of Kubernetes. What
// svcproxy cannot do becomes a Note with its line; nothing is left out in silence.
//
// A virtual server that masquerades becomes a service with a cluster IP. That forwards as it
// did: the endpoints see the client's address, and their answers come back through this node.
// Direct routing and tunnels stay what they are. An address of HAProxy becomes one of a load
// balancer: the endpoints see the node's address, as they did.
package convert
