package kernel

// SameEnds returns a program for the match xt_bpf, as iptables-save prints it. It accepts
// packets of a family that have one address as source and destination. It compares words
// of the IP header: one of IPv4 at bytes 12 and 16, four of IPv6 from bytes 8 and 24.
func SameEnds(f Family) string {
	if f == IPv6 {
		return "18,32 0 0 8,7 0 0 0,32 0 0 24,29 0 13 0,32 0 0 12,7 0 0 0,32 0 0 28,29 0 9 0," +
			"32 0 0 16,7 0 0 0,32 0 0 32,29 0 5 0,32 0 0 20,7 0 0 0,32 0 0 36,29 0 1 0,6 0 0 1,6 0 0 0"
	}
	return "6,32 0 0 12,7 0 0 0,32 0 0 16,29 0 1 0,6 0 0 1,6 0 0 0"
}
