#!/bin/sh
# What the guest's kernel must be able to do, each step by a program of others.
# Modules come when they are asked for: none of these is named to modprobe.
set -ex

ip link add kube-ipvs0 type dummy
ip address add 10.96.0.1/32 dev kube-ipvs0
for scheduler in rr wrr lc wlc lblc lblcr sh dh sed nq mh; do
	ipvsadm -A -f 7 -s $scheduler
	ipvsadm -D -f 7
done
ipvsadm -A -t 10.96.0.1:80 -s wrr
ipvsadm -a -t 10.96.0.1:80 -r 10.1.0.2:8080 -m -w 2
ipvsadm -Ln | grep '10.1.0.2:8080 *Masq *2'
ipset create V4 hash:ip,port
ipset create V6 hash:ip,port family inet6
ipset add V4 10.96.0.1,tcp:80
for iptables in iptables-nft iptables-legacy; do
	$iptables -t nat -A POSTROUTING -m comment --comment svc -m set --match-set V4 dst,dst -j MASQUERADE
	$iptables -A FORWARD -m mark --mark 0x4000/0x4000 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
done
ip6tables-nft -t nat -A POSTROUTING -m set --match-set V6 dst,dst -j MASQUERADE
ip6tables-legacy -t nat -A POSTROUTING -m set --match-set V6 dst,dst -j MASQUERADE
nft list ruleset | grep masquerade

ip netns add peer
ip link add veth0 type veth peer name veth1 netns peer
ip address add 10.1.0.1/24 dev veth0
ip link set veth0 up
ip -n peer address add 10.1.0.2/24 dev veth1
ip -n peer link set veth1 up
ping -c 1 -W 5 10.1.0.2
conntrack -L -p icmp | grep 10.1.0.2
tc qdisc add dev veth0 root netem delay 1ms
ip link add bridge0 type bridge
ip link add vxlan0 type vxlan id 1 dstport 4789
modprobe br_netfilter
sysctl net.bridge.bridge-nf-call-iptables

ip link show lo | grep LOWER_UP
test -d /proc/sys/net/ipv4/vs -a -f /sys/fs/cgroup/cgroup.controllers -a -c /dev/pts/ptmx
