package convert

import (
	"fmt"
	"strconv"

	"github.com/svcproxy/svcproxy/sources"
)

// limits are the thresholds of connections of a backend; 0 = none.
type limits struct{ upper, lower uint32 }

// threshold reads a threshold.
func threshold(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n > sources.MostConnections {
		return 0, fmt.Errorf("want a number of connections as the threshold")
	}
	return uint32(n), nil
}

// ipvsadm takes the options -x and -y.
func (l *limits) ipvsadm(o map[string][]string) (err error) {
	if x := o["-x"]; x != nil {
		l.upper, err = threshold(x[0])
	}
	if y := o["-y"]; y != nil && err == nil {
		l.lower, err = threshold(y[0])
	}
	return err
}

// checkLimits leaves out a lower threshold that IPVS would refuse.
func (v *virtual) checkLimits(r *real) {
	if l := &r.limits; l.lower > l.upper {
		v.noteChange(r.at, "lower threshold %d of %s: it is above the upper one, %d", l.lower, r.place, l.upper)
		l.lower = 0
	}
}

// plus is what two backends may have together; one without a limit has none with another.
func (l limits) plus(o limits) limits {
	if l.upper == 0 || o.upper == 0 {
		return limits{}
	}
	lower := l.lower + o.lower
	if l.lower == 0 || o.lower == 0 {
		lower = 0
	}
	return limits{min(l.upper+o.upper, sources.MostConnections), min(lower, sources.MostConnections)}
}
