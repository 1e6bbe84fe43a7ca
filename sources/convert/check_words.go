package convert

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// checkWord takes what stands behind a word of a check.
type checkWord func(c *sources.HealthCheck, value string) error

// checkWords are the words of checks that set one field, in all formats.
var checkWords = map[Format]map[string]checkWord{
	Keepalived: {
		"delay_loop":         lasts(someSeconds, sources.HealthInterval, interval),
		"delay_before_retry": lasts(someSeconds, sources.HealthFastInterval, fastInterval),
		"connect_timeout":    lasts(someSeconds, sources.HealthTimeout, timeout),
		"misc_timeout":       lasts(someSeconds, sources.HealthTimeout, timeout),
		"retry":              counts(0, 1, sources.HealthFall, fall),
		"nb_get_retry":       counts(0, 1, sources.HealthFall, fall),
		"connect_port":       checkPort,
		"bindto":             checkSource,
		"bind_if":            says(func(p *sources.Probe) *string { return &p.Interface }),
		"fwmark":             checkMark,
		"path":               checkPath,
		"status_code":        checkStatus,
		"type":               recordType,
		"name":               says(func(p *sources.Probe) *string { return &p.Query }),
		"payload":            bytesOf(func(p *sources.Probe) *string { return &p.Send }),
		"require_reply":      bytesOf(func(p *sources.Probe) *string { return &p.Expect }),
		"sni_name":           says(func(p *sources.Probe) *string { return &p.ServerName }),
	},
	HAProxy: {
		"inter":          lasts(haproxyMillis, sources.HealthInterval, interval),
		"fastinter":      lasts(haproxyMillis, sources.HealthFastInterval, fastInterval),
		"downinter":      lasts(haproxyMillis, sources.HealthDownInterval, downInterval),
		"slowstart":      lasts(haproxyMillis, sources.HealthSlowStart, slowStart),
		"fall":           counts(1, 0, sources.HealthFall, fall),
		"rise":           counts(1, 0, sources.HealthRise, rise),
		"port":           checkPort,
		"on-marked-down": onMarkedDown,
	},
	LDirectord: {
		"checkinterval": lasts(wholeSeconds, sources.HealthInterval, interval),
		"failurecount":  counts(1, 0, sources.HealthFall, fall),
		"checkport":     checkPort,
		"virtualhost":   says(func(p *sources.Probe) *string { return &p.Host }),
		"httpmethod":    checkMethod,
	},
}

func interval(c *sources.HealthCheck) *time.Duration     { return &c.Interval }
func fastInterval(c *sources.HealthCheck) *time.Duration { return &c.FastInterval }
func downInterval(c *sources.HealthCheck) *time.Duration { return &c.DownInterval }
func timeout(c *sources.HealthCheck) *time.Duration      { return &c.Probe.Timeout }
func slowStart(c *sources.HealthCheck) *time.Duration    { return &c.SlowStart }
func fall(c *sources.HealthCheck) *int                   { return &c.Fall }
func rise(c *sources.HealthCheck) *int                   { return &c.Rise }

// field is where a check has a value.
type field[T any] func(c *sources.HealthCheck) *T

// lasts sets a time, but not to 0.
func lasts(read func(string) (time.Duration, error), key sources.HealthKeys, at field[time.Duration]) checkWord {
	return func(c *sources.HealthCheck, value string) error {
		d, err := read(value)
		if err == nil && d > 0 {
			*at(c) = d
			c.Unset &^= key
		}
		return err
	}
}

// counts sets a number from least on, and some more.
func counts(least, more int, key sources.HealthKeys, at field[int]) checkWord {
	return func(c *sources.HealthCheck, value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < least || n > 999 {
			return fmt.Errorf("want a number from %d", least)
		}
		*at(c) = n + more
		c.Unset &^= key
		return nil
	}
}

func says(at func(*sources.Probe) *string) checkWord {
	return func(c *sources.HealthCheck, value string) error {
		*at(&c.Probe) = value
		return nil
	}
}

func bytesOf(at func(*sources.Probe) *string) checkWord {
	return func(c *sources.HealthCheck, value string) error {
		if err := hexOf(strings.ReplaceAll(value, " ", ""), at(&c.Probe)); err != nil {
			return fmt.Errorf("%w, so any answer will do", err)
		}
		return nil
	}
}

func checkPort(c *sources.HealthCheck, value string) error { return portOf(value, &c.Probe.Port) }

func checkSource(c *sources.HealthCheck, value string) (err error) {
	if c.Probe.Source, err = netip.ParseAddr(value); err != nil {
		return errors.New("want an address")
	}
	return nil
}

func checkMark(c *sources.HealthCheck, value string) error {
	n, err := strconv.ParseUint(value, 0, 32)
	if err != nil {
		return errors.New("want a number")
	}
	c.Probe.Mark = uint32(n)
	return nil
}

func checkPath(c *sources.HealthCheck, value string) error {
	c.Probe.Path = "/" + strings.TrimPrefix(value, "/")
	return nil
}

func checkStatus(c *sources.HealthCheck, value string) error {
	codes := strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
	slices.Sort(codes)
	c.Probe.ExpectStatus = strings.Join(slices.Compact(codes), ",")
	return nil
}

func recordType(c *sources.HealthCheck, value string) error {
	c.Probe.RecordType = strings.ToUpper(value)
	return nil
}

func onMarkedDown(c *sources.HealthCheck, value string) error {
	if value != "shutdown-sessions" {
		return errors.New("its word is not known here")
	}
	c.OnDown = sources.DownCut
	c.Unset &^= sources.HealthOnDown
	return nil
}

func checkMethod(c *sources.HealthCheck, value string) error {
	method := strings.ToUpper(value)
	if method != "GET" && method != "HEAD" {
		return errors.New("want GET or HEAD")
	}
	c.Probe.Method = method
	return nil
}

// someSeconds reads seconds, which may have a fraction.
func someSeconds(text string) (time.Duration, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f >= 0 && f <= 86400) {
		return 0, errors.New("want seconds, at most a day")
	}
	return time.Duration(f * float64(time.Second)).Round(time.Millisecond), nil
}

func haproxyMillis(text string) (time.Duration, error) { return haproxyTime(text, time.Millisecond) }

// wholeSeconds reads a number of seconds above 0.
func wholeSeconds(text string) (time.Duration, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, errors.New("want a number of seconds")
	}
	return time.Duration(n) * time.Second, nil
}
