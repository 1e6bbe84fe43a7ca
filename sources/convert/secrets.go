package convert

import (
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/redact"
)

// secretPart names the part of a probe that holds a secret, or what may be one; "" if there is none.
func secretPart(p *sources.Probe) string {
	// The words for an endpoint in the arguments of a program are none.
	args := strings.NewReplacer(endpointAddress, "192.0.2.1", endpointPort, "80").Replace(p.Args)
	switch {
	case redact.LooksSecret(p.Host):
		return "host"
	case redact.Target(p.Path):
		return "path"
	case redact.LooksSecret(p.ExpectBody):
		return "expectBody"
	case redact.Bytes(p.Send):
		return "send"
	case redact.LooksSecret(p.Expect):
		return "expect"
	case args != "" && redact.Args(strings.Split(args, "\x00")):
		return "args"
	case slices.ContainsFunc(strings.Split(p.Headers, "\n"), secretHeader):
		return "headers"
	}
	return ""
}

func secretHeader(line string) bool {
	name, value, _ := strings.Cut(line, ": ")
	return line != "" && redact.Header(name, value)
}

// conceal makes a check with a secret one that only connects, so that endpoints which serve stay up.
func (v *virtual) conceal(r *real) {
	if r.check == nil {
		return
	}
	name := secretPart(&r.check.Probe)
	if name == "" {
		return
	}
	own := *r.check
	own.Probe = onlyConnects(own.Probe)
	r.check = &own
	v.noteChange(r.checkAt, "%s of the health check has a secret, or what may be one: import does not copy it. "+
		"Write the check yourself, in a file that others cannot read; until then it only connects", name)
}

// onlyConnects is a probe that asks nothing of the service behind the port: one of UDP pings.
func onlyConnects(p sources.Probe) sources.Probe {
	if p.Type == sources.CheckUDP || p.Type == sources.CheckDNS {
		return sources.Probe{Type: sources.CheckPing, Timeout: p.Timeout}
	}
	return sources.Probe{Type: sources.CheckTCP, Timeout: p.Timeout, Port: p.Port}
}
