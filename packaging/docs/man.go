package docs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// Edition is the version and date that the manual pages state.
type Edition struct {
	Version string
	Date    time.Time
}

// program is svcproxy(8), from the table of commands and their flags.
func (e Edition) program(prog cli.Program) []byte {
	p := newPage("svcproxy", 8, e.Version, e.Date, "L4 load balancer daemon on IPVS")
	p.heading("SYNOPSIS")
	for i, c := range prog.Visible() {
		if i > 0 {
			p.WriteString(".br\n")
		}
		name := c.Name
		if i == 0 {
			name = "[" + name + "]"
		}
		args := ""
		if c.Args != "" {
			args = " \\fI" + escape(c.Args) + "\\fR"
		}
		fmt.Fprintf(p, "\\fB%s %s\\fR [\\fIFLAGS\\fR]%s\n", escape(prog.Name), escape(name), args)
	}
	p.heading("DESCRIPTION")
	p.text(about)
	p.heading("COMMANDS")
	common := prog.FlagSet(cli.Command{})
	for _, c := range prog.Visible() {
		p.command(c, prog.FlagSet(c), common)
	}
	p.heading("FLAGS OF ALL COMMANDS")
	p.text("A flag overrides its key in svcproxy.toml. Flags of kube-proxy that have no effect here are accepted with a " +
		"warning, and not listed.")
	common.VisitAll(p.pflag)
	p.heading("SIGNALS")
	for _, s := range signals {
		p.item(s[0], s[1])
	}
	p.heading("EXIT STATUS")
	for _, s := range exits {
		p.item(fmt.Sprint(s.code), s.meaning)
	}
	p.heading("FILES")
	for _, s := range filesOnDisk {
		p.item(s[0], s[1])
	}
	p.heading("ENVIRONMENT")
	for _, s := range environment {
		p.item(s[0], s[1])
	}
	p.heading("EXAMPLES")
	for _, s := range examples {
		p.text(s[0])
		p.literal(s[1])
	}
	p.seeAlso(append(others("svcproxy.8"), "systemctl(1)", "journalctl(1)", "ipvsadm(8)", "ipset(8)", "iptables(8)")...)
	return p.Bytes()
}

// command writes what there is to say of one command, with those of its flags that are not common to all.
func (p *page) command(c cli.Command, flags, common *pflag.FlagSet) {
	p.subheading(strings.TrimSpace(c.Name + " " + c.Args))
	p.text(sentence(c.Short))
	if c.Long != "" {
		p.text(c.Long)
	}
	if len(c.Values) > 0 {
		p.text("One of " + strings.Join(c.Values, ", ") + ".")
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if common.Lookup(f.Name) == nil {
			p.pflag(f)
		}
	})
	for _, e := range c.Exits {
		p.item(fmt.Sprintf("exit code %d", e.Code), sentence(e.When))
	}
	if len(c.Examples) > 0 {
		p.literal(strings.Join(c.Examples, "\n"))
	}
}

func (p *page) pflag(f *pflag.Flag) {
	if f.Hidden || f.Deprecated != "" {
		return
	}
	value, usage := pflag.UnquoteUsage(f)
	names := "--" + f.Name
	if f.Shorthand != "" {
		names = "-" + f.Shorthand + ", " + names
	}
	switch {
	case f.NoOptDefVal == "true":
		value = ""
	case f.NoOptDefVal != "":
		names, value = names+"[="+value+"]", ""
		usage += " (" + f.NoOptDefVal + " without one)"
	}
	if f.DefValue != "" && f.DefValue != "false" && (f.NoOptDefVal == "" || f.NoOptDefVal == "true") &&
		!strings.Contains(usage, "(default") {
		usage += " (default " + f.DefValue + ")"
	}
	p.flag(names, value, sentence(usage))
}

// config is svcproxy.toml(5), from the keys that the reader of the file knows.
func (e Edition) config(keys []fields.Key) []byte {
	p := newPage("svcproxy.toml", 5, e.Version, e.Date, "how a node's service proxy behaves")
	p.heading("DESCRIPTION")
	p.text(`/etc/svcproxy/svcproxy.toml is TOML. The file is optional, and so is each key: a key that is left out has
		its default. An unknown key is an error with its file and line. Durations are strings such as "30s", "5m" or
		"3h". Most keys have the names of KubeProxyConfiguration, and --config also reads such a file, in YAML.`)
	p.text(`svcproxy follows changes of the file. A change takes effect as a whole; if it is refused, the last good
		content stays in effect. svcproxy reload --wait, which systemctl reload svcproxy runs, prints what was refused. A
		key that needs a restart keeps its value until then.`)
	p.heading("KEYS")
	table := ""
	for i, k := range keys {
		in, name, _ := cutLast(k.Path)
		if i == 0 || in != table {
			table = in
			if in != "" {
				p.subheading("[" + in + "]")
			}
		}
		p.key(name, string(k.Kind), k.Words, k.Default, k.Comment)
		var notes []string
		if k.Flag != "" {
			dashes := "--"
			if len(k.Flag) == 1 {
				dashes = "-"
			}
			notes = append(notes, "flag "+dashes+k.Flag)
		}
		if k.Restart {
			notes = append(notes, "a change needs a restart")
		}
		if notes != nil {
			p.WriteString(".br\n" + lines(sentence(strings.Join(notes, "; "))))
		}
	}
	p.subheading("[services.NAME]")
	p.text("Services of this node, besides those of the service files. The tables are those of services.toml(5).")
	p.heading("FILES")
	p.item("/usr/share/svcproxy/schema/svcproxy.schema.json", "the same keys as a JSON schema, for editors")
	p.seeAlso(others("svcproxy.toml.5")...)
	return p.Bytes()
}

// services is services.toml(5), from the keys that the reader of the file knows.
func (e Edition) services(keys []fields.Key) []byte {
	p := newPage("services.toml", 5, e.Version, e.Date, "what a node's service proxy serves")
	p.heading("DESCRIPTION")
	p.text(`/etc/svcproxy/services.toml and every /etc/svcproxy/services.d/*.toml list the services. svcproxy follows
		their changes. Each file is accepted or refused as a whole. A refused file is logged with the line of each error,
		and its last good content stays in effect. A file that never was good is left out until it is corrected.`)
	p.text(`To change a file safely, write the new content to another name in the same directory, and rename it over
		the file. A file that is written in place counts at once if nothing that is served would go. If a part of a service
		would go, or the file is not valid, it counts after a second without a change; if a service would go, after 10.
		It waits 30 seconds at most, and svcproxy reload ends the wait. A file that had services and is now
		empty, or has comments alone, is refused; to remove all services, write services = {}. A file that the
		configuration names is refused if it vanishes. Removing a file from services.d removes its services. If
		services.d itself vanishes, the last good content of its files is served; to end that, make an empty one. If it
		is a mount that is not mounted, the same is served; to end that, put an empty file none.toml there.`)
	p.text(`Two services of one file that want the same VIP and port, or the same node port, are an error. If they are
		in different files or sources, one of them gets it: the service that had it before, even before a restart, or of
		two new ones that of the earlier file. The other is served without it. A VIP that is an address of one of the
		node's own links is served and not bound. A VIP that is the node's default gateway, or an endpoint of another
		service, is left out. svcproxy status shows what is left out, and why.`)
	p.heading("EXAMPLE")
	p.literal(example)
	p.heading("KEYS")
	p.text("Choose NAME, PORTNAME and HEADER freely. [] stands for each element of a list.")
	for _, k := range keys {
		if shared(k) {
			continue
		}
		p.key(k.Path, string(k.Kind), k.Words, k.Default, k.Comment)
	}
	p.healthChecks()
	p.heading("LISTS")
	p.text(`A file of the folder /etc/svcproxy/lists (sources.file.lists) is a list, and its name without a dot is the
		list's: "@office" in allow or deny is the file office. Each line has one network or address, IPv4 or IPv6; # begins a
		comment. A list has at most 100,000. svcproxy follows lists as it follows files of services: a list is accepted or
		refused as a whole, and one that is written in place and loses a network, or ends within a line, counts after a second
		without a change. A list that had networks and has none is refused; the line none says that it has none. A list that
		is not there has no networks: as allow it lets nobody in, as deny everybody, and svcproxy status warns.`)
	p.heading("LIMITS")
	p.text(`The kernel refuses the first packet of a connection by rules in table svcproxy-limits of nftables, which
		svcproxy makes in every mode, and only for services with allow, deny or limits. "nft list table ip svcproxy-limits"
		shows them. svcproxy status SERVICE and the metric svcproxy_service_refusals_total count what they refuse, in first
		packets: a client whose packets are dropped sends several. The counts go on when rules change and over a restart,
		but a restart loses those of rules that were replaced before it. A kernel without nftables serves no such
		service, and svcproxy status says so. Connections that are open go on, but in mode userspace those from before
		the first service with such keys. Nothing limits clients on the node itself. Limits count connections from the
		time on that they are there. A limit for each client has room for 65,536 clients; of IPv6, a client is a network
		of 64 bits. svcproxy status says that there is no room, as condition meterFull, and limits.whenFull what becomes
		of more clients. A limit for all clients together begins anew when a key of these changes.`)
	p.heading("FILES")
	p.item("/usr/share/svcproxy/schema/services.schema.json", "the same keys as a JSON schema, for editors")
	p.seeAlso(others("services.toml.5")...)
	return p.Bytes()
}

// healthChecks is what the keys of health checks cannot say.
func (p *page) healthChecks() {
	p.heading("HEALTH CHECKS")
	p.text(`Without verify, types tls, https and grpc take every server that Go's TLS can reach, from TLS 1.0 on, with
		RSA key exchange too. A certificate that Go cannot parse, or whose RSA key is shorter than 1024 or longer than
		8192 bits, is a warning of svcproxy status: the endpoint is up, and what it would answer to https or grpc is not
		asked. Go cannot do these: key exchange by DHE; AES-CBC with SHA-384, AES-256-CBC with SHA-256 under RSA key
		exchange, AES-CCM, ARIA and Camellia; group X448; keys of type RSA-PSS, Ed448 or DSA. Use type tcp for a server
		that has nothing else.`)
	p.text(`Type agent reads answers as HAProxy does. The last of the words up, down, stopped and fail counts at once,
		whatever fall and rise are. A percentage of the weight stays until the next one, and drain and maint until ready,
		also over a restart. Other words change nothing, nor does a line without an end. An agent that cannot be asked
		counts as with other types.`)
}

// shared says whether a key is also one of another table, which the page explains: named health checks have the keys of
// a service's healthCheck, vips those of loadBalancerIPs, and backends those of endpoints.
func shared(k fields.Key) bool {
	return strings.HasPrefix(k.Path, "healthChecks.NAME.") || strings.HasPrefix(k.Path, "services.NAME.vips[].") ||
		strings.HasPrefix(k.Path, "services.NAME.backends[].")
}

func (p *page) key(name, kind string, words []string, byDefault, comment string) {
	if len(words) > 0 {
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = fmt.Sprintf("%q", w)
		}
		kind = "one of " + strings.Join(quoted, ", ")
	}
	if byDefault != "" {
		kind += "; default " + byDefault
	}
	p.item(name, sentence(comment))
	p.WriteString(".br\n" + lines("("+kind+")"))
}

func (p *page) seeAlso(pages ...string) {
	p.heading("SEE ALSO")
	for i, s := range slices.Sorted(slices.Values(pages)) {
		name, section, _ := strings.Cut(s, "(")
		comma := ","
		if i == len(pages)-1 {
			comma = ""
		}
		fmt.Fprintf(p, ".BR %s (%s%s\n", escape(name), section, comma)
	}
}

// sentence makes a sentence of a line of help: upper case first, a full stop last. A
// first word that is quoted or has upper case letters stays as it is.
func sentence(s string) string {
	if s == "" {
		return s
	}
	first, _, _ := strings.Cut(s, " ")
	if first == strings.ToLower(first) {
		s = strings.ToUpper(s[:1]) + s[1:]
	}
	return strings.TrimSuffix(s, ".") + "."
}

// cutLast splits a dotted key at its last dot.
func cutLast(key string) (table, name string, ok bool) {
	i := strings.LastIndexByte(key, '.')
	return key[:max(i, 0)], key[i+1:], i >= 0
}
