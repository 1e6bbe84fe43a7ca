package lab_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// Lines as strace 6.1 writes them, and 6.13 if it writes others.
const trace = `
101 execve("/usr/bin/svcproxy", ["svcproxy", "run"], [...]) = 0
101 sendto(3<NETLINK:[NETFILTER:113]>, [{nlmsg_len=60, nlmsg_type=NFNL_SUBSYS_IPSET<<8|IPSET_CMD_ADD, nlmsg_flags=NLM_F_REQUEST|NLM_F_ACK|0x200, nlmsg_seq=1, nlmsg_pid=0}, {nfgen_family=AF_INET}], 60, 0, NULL, 0) = 60
103 execve("/usr/sbin/iptables-restore", ["iptables-restore"], [...]) = 0
103 sendto(3<NETLINK:[NETFILTER:9]>, [{nlmsg_len=20, nlmsg_type=NFNL_MSG_BATCH_BEGIN, nlmsg_flags=NLM_F_REQUEST, nlmsg_seq=1, nlmsg_pid=0}, {}], 20, 0, NULL, 0) = 20
101 sendto(4<NETLINK:[GENERIC:1]>, [{nlmsg_len=104, nlmsg_type=IPVS, nlmsg_flags=NLM_F_REQUEST|NLM_F_ACK, nlmsg_seq=1, nlmsg_pid=0}, "\x01\x01\x00\x00"...], 104, 0, NULL, 0) = 104
101 recvfrom(4<NETLINK:[GENERIC:1]>, [{nlmsg_len=36, nlmsg_type=NLMSG_ERROR, nlmsg_flags=NLM_F_CAPPED, nlmsg_seq=1, nlmsg_pid=0}, {error=-EINVAL, msg={}}], 4096, 0, NULL, NULL) = 36
101 sendmsg(4<NETLINK:[GENERIC:1]>, {msg_iov=[{iov_base=[[{nlmsg_len=104, nlmsg_type=IPVS, nlmsg_flags=NLM_F_REQUEST, nlmsg_seq=2, nlmsg_pid=0}, "\x01\x01\x00\x00"...], [{nlmsg_len=20, nlmsg_type=IPVS, nlmsg_flags=NLM_F_REQUEST|0x300, nlmsg_seq=3, nlmsg_pid=0}, "\x04\x01\x00\x00"]], iov_len=124}]}, 0) = 124
102 sendto(5<NETLINK:[ROUTE:118]>, [{nlmsg_len=40, nlmsg_type=RTM_GETADDR, nlmsg_flags=NLM_F_REQUEST|NLM_F_DUMP, nlmsg_seq=4, nlmsg_pid=0}, {ifa_family=AF_INET}], 40, 0, NULL, 0) = 40
102 recvfrom(5<NETLINK:[ROUTE:118]>, [{nlmsg_len=40, nlmsg_type=RTM_NEWADDR, nlmsg_flags=NLM_F_MULTI, nlmsg_seq=4, nlmsg_pid=0}, {}], 40, 0, NULL, NULL) = 40
102 sendto(5<NETLINK:[ROUTE:118]>, "\x01\x02", 2, 0, NULL, 0) = 2
102 getsockopt(6<RAW:[1]>, SOL_IP, IP_VS_SO_GET_SERVICES, "", [64]) = 0
102 sendto(7<TCP:[1]>, "x", 1, 0, NULL, 0) = 1
102 --- SIGURG {si_signo=SIGURG} ---
102 sendto(4<NETLINK:[GENERIC:1]>, [{nlmsg_len=104, nlmsg_type=IPVS, nlmsg_flags=NLM_F_REQUEST|NLM_F_ACK, nlmsg_seq=5, nlmsg_pid=0}, "\x05\x01\x00\x00"...], 104, 0, NULL, 0 <unfinished ...>
101 sendto(3<NETLINK:[NETFILTER:113]>, [{nlmsg_len=28, nlmsg_type=NFNL_SUBSYS_IPSET<<8|IPSET_CMD_PROTOCOL, nlmsg_flags=NLM_F_REQUEST, nlmsg_seq=1, nlmsg_pid=0}, {nfgen_family=AF_INET}], 28, 0, NULL, 0) = 28
102 <... sendto resumed>) = 104
101 sendto(8<NETLINK:[GENERIC:2]>, [[{nlmsg_len=28, nlmsg_type=IPVS, nlmsg_flags=NLM_F_REQUEST|NLM_F_DUMP, nlmsg_seq=1, nlmsg_pid=0}, {cmd=0x8, version=1}, [{nla_len=8, nla_type=0x1}, "\x07\x00\x00\x00"]], [{nlmsg_len=28, nlmsg_type=IPVS, nlmsg_flags=NLM_F_REQUEST, nlmsg_seq=2, nlmsg_pid=0}, {cmd=0xd, version=1}]], 56, 0, NULL, 0) = 56
101 sendto(8<NETLINK:[GENERIC:2]>, [{nlmsg_len=28, nlmsg_type=IPVS, nlmsg_flags=NLM_F_REQUEST|NLM_F_ACK, nlmsg_seq=3, nlmsg_pid=0}, {cmd=0x2, version=1}, [{nla_len=8, nla_type=0x1}, "\x07\x00\x00\x00"]], 28, 0, NULL, 0) = 28
101 recvfrom(4<NETLINK:[GENERIC:1]>,  <unfinished ...>
102 recvfrom(5<NETLINK:[ROUTE:118]>,  <unfinished ...>
101 <... recvfrom resumed>[{nlmsg_len=36, nlmsg_type=NLMSG_ERROR, nlmsg_flags=NLM_F_CAPPED, nlmsg_seq=5, nlmsg_pid=0}, {error=-EEXIST, msg={}}], 4096, 0, NULL, NULL) = 36
`

func TestTraceTellsWritesFromReads(t *testing.T) {
	all := lab.ParseTrace(trace)
	got := all.Own()
	types := func(list []lab.Message) (types []string) {
		for _, m := range list {
			types = append(types, m.Type)
		}
		return types
	}
	if want := []string{"NFNL_SUBSYS_IPSET<<8|IPSET_CMD_ADD", "IPVS 1", "undecoded", "IPVS 2"}; !slices.Equal(types(got.Writes()), want) {
		t.Errorf("writes: %q", types(got.Writes()))
	}
	if want := []string{"IPVS 4", "RTM_GETADDR", "IPVS 8", "IP_VS_SO_GET"}; !slices.Equal(types(got.Dumps()), want) {
		t.Errorf("dumps: %q", types(got.Dumps()))
	}
	if want := "[/usr/bin/svcproxy /usr/sbin/iptables-restore]"; fmt.Sprint(all.Execs()) != want {
		t.Errorf("execs: %q", all.Execs())
	}
	if n := len(got.Netlink()); n != 14 {
		t.Errorf("%d calls of netlink or IPVS:\n%s", n, got.Netlink())
	}
}
