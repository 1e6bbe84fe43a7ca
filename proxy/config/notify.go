package config

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/sources/fields"
)

// Notify is table notify: who is told when a state changes.
type Notify struct {
	Exec        []string // program and arguments; none = no program
	Webhook     string   // "" = none
	MinInterval time.Duration
	Timeout     time.Duration
}

// notifyFields are the keys of table notify.
var notifyFields = []field{
	define("notify.exec", "", zero, `run this program, without a shell, when a state changes: its path and arguments; `+
		`it reads the events as JSON from standard input`,
		func(c *Config) *[]string { return &c.Notify.Exec }, argv, nil),
	define("notify.webhook", "", zero, `send the same JSON to this URL by POST; "" sends none`,
		func(c *Config) *string { return &c.Notify.Webhook }, fields.StringOf(checkWebhook), ""),
	define("notify.minInterval", "", zero, "the shortest time between two calls; events of the time between come with "+
		"the next one",
		func(c *Config) *time.Duration { return &c.Notify.MinInterval }, positive, 10*time.Second),
	define("notify.timeout", "", zero, "how long a call may take; a program is killed then",
		func(c *Config) *time.Duration { return &c.Notify.Timeout }, positive, 10*time.Second),
}

var argv = list("a program and its arguments", func(s string) (string, error) { return s, nil }, itself)

// checkWebhook accepts a URL of a web server.
func checkWebhook(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New(`is not a URL such as "https://alerts.example.net/svcproxy"`) // s may have a secret
	}
	return nil
}

// checkNotify checks the keys of table notify that depend on each other.
func (d *decoder) checkNotify() {
	if exec := d.config.Notify.Exec; len(exec) > 0 && !d.refused["notify.exec"] {
		if err := absolute(exec[0]); err != nil {
			d.refuseAt("notify.exec", fmt.Sprintf("notify.exec: its first word is the program: %v", err))
		}
	}
}

// public is the configuration without what may be secret: the path of the webhook, and the arguments of the program.
func (c Config) public() Config {
	c.Notify.Webhook = withoutPath(c.Notify.Webhook)
	if exec := c.Notify.Exec; len(exec) > 1 {
		c.Notify.Exec = []string{exec[0], "…"}
	}
	return c
}

// Secrets are the parts that may be secret, for a report that leaves them out: see public.
func (n Notify) Secrets() (list []string) {
	if u, err := url.Parse(n.Webhook); err == nil {
		if password, ok := u.User.Password(); ok {
			list = append(list, password)
		}
		list = append(list, strings.TrimPrefix(u.RequestURI(), "/"))
	}
	if len(n.Exec) == 0 {
		return list
	}
	for _, arg := range n.Exec[1:] {
		if _, value, ok := strings.Cut(arg, "="); ok {
			list = append(list, value)
		} else if !strings.HasPrefix(arg, "-") { // the name of an option is none
			list = append(list, arg)
		}
	}
	return list
}

// withoutPath is the part of a URL that is no secret: a path or a query may have a password.
func withoutPath(s string) string {
	u, err := url.Parse(s)
	if s == "" || err != nil {
		return s
	}
	return u.Scheme + "://" + u.Host + "/…"
}
