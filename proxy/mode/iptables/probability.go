package iptables

import (
	"math"
	"strconv"
)

// unit is the probability 1 in the kernel, which counts in parts of 2^31.
const unit = 1 << 31

// probability returns the text of a probability w/sum, as iptables-save prints it: rounded
// to the kernel's units, with 11 digits. Any other text would differ from each reading, and
// the chain would be written again in each sync. A weight of more than 0 never becomes
// probability 0.
func probability(w, sum uint64) string {
	return ofUnits(float64(w) / float64(sum))
}

// kubeProxys is probability as kube-proxy has it, which gives iptables only 10 digits.
func kubeProxys(w, sum uint64) string {
	const digits = 1e10
	return ofUnits(math.Round(float64(w)/float64(sum)*digits) / digits)
}

func ofUnits(p float64) string {
	return strconv.FormatFloat(max(math.Round(p*unit), 1)/unit, 'f', 11, 64)
}
