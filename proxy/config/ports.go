package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Ports returns the first and the last port of portRange; 0 and 0 are any.
func (c *Config) Ports() (first, last uint16) {
	first, last, _ = parsePorts(c.PortRange)
	return first, last
}

func checkPorts(s string) error {
	_, _, err := parsePorts(s)
	return err
}

// parsePorts reads a range as kube-proxy does: "10000", "10000-10100", or "10000+100" for a port and the 100
// after it. A range that begins with 0 is any.
func parsePorts(s string) (first, last uint16, err error) {
	if s = strings.TrimSpace(s); s == "" {
		return 0, 0, nil
	}
	number := func(s string) uint64 {
		n, bad := strconv.ParseUint(strings.TrimSpace(s), 10, 16)
		if bad != nil {
			err = fmt.Errorf(`must be ports such as "10000-10100", "10000+100" or "10000"`)
		}
		return n
	}
	low, rest, isRange := strings.Cut(s, "-")
	low, offset, isOffset := strings.Cut(low, "+")
	from := number(low)
	to := from
	switch {
	case isRange && isOffset:
		number("")
	case isRange:
		to = number(rest)
	case isOffset:
		to = from + number(offset)
	}
	switch {
	case err != nil:
		return 0, 0, err
	case to > 65535:
		return 0, 0, fmt.Errorf("%d is not a port: the last is 65535", to)
	case to < from:
		return 0, 0, fmt.Errorf("ends before it begins")
	case from == 0:
		return 0, 0, nil
	}
	return uint16(from), uint16(to), nil
}
