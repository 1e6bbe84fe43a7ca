package explain

import "fmt"

// admitted reports whether the service lets the client in, and within which limits. The kernel asks that before it
// translates the destination, and not for packets of the node itself.
func (x *explainer) admitted() {
	if x.front == nil || x.p.In == "" || x.p.Established {
		return
	}
	c, name := x.Fronts.Clients(x.front), x.service(x.front).DisplayName()
	if c == nil {
		return
	}
	ok, by := c.Admits(x.p.Src.Addr(), x.Fronts.Lists())
	switch anyone := x.AnySource && len(c.Allowed())+len(c.Denied()) > 0; {
	case anyone:
		x.limits = append(x.limits, fmt.Sprintf("service %s lets the client in (keys allow and deny)", name))
	case by != "":
		x.kept(c.Reject, fmt.Sprintf("%s is in %s, which service %s denies", x.source(), by, name))
	case !ok:
		x.kept(c.Reject, fmt.Sprintf("%s is in nothing that service %s allows", x.source(), name))
	}
	if c.Limited() {
		x.limits = append(x.limits, fmt.Sprintf("the client is within the limits of service %s (%s)", name, c.Limits()))
	}
}

// kept ends the way of a client's packet.
func (x *explainer) kept(reject bool, why string) {
	x.wrong(stageRule, "limits for clients: %s", why)
	if reject {
		x.end(Refused, "refused because "+why)
	}
	x.end(Dropped, "dropped because "+why)
}
