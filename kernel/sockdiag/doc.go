// Package sockdiag tells which programs of this host listen, over NETLINK_SOCK_DIAG. It reads only the sockets of the
// calling thread's network namespace, and needs no capability.
//
// The name of a program is that of a process that has the socket open. Without CAP_SYS_PTRACE, which the unit does not
// have, the processes of other users cannot be asked. Then the socket's control group names the program's unit.
package sockdiag
