package relay

import (
	"container/list"
	"net/netip"
	"time"
)

// maxTemplates is how many clients a virtual server with affinity remembers: about 50 MB. The one
// that has not been seen for longest is forgotten first.
const maxTemplates = 1 << 18

// templates is the affinity of a virtual server: which endpoint each client gets, as IPVS's
// persistence templates. The zero value is empty. Its service's mutex guards it.
type templates struct {
	by    map[netip.Addr]*template
	order list.List // of *template, the longest unused first
}

// template is one client's.
type template struct {
	client netip.Addr
	to     *endpoint
	conns  int       // in use; while there are any it does not expire
	used   time.Time // last: a connection began or ended
	at     *list.Element
}

func (t *templates) len() int { return t.order.Len() }

// find returns a client's template, or nil.
func (t *templates) find(client netip.Addr, now time.Time, timeout time.Duration) *template {
	t.expire(now, timeout)
	return t.by[client]
}

// use makes to the client's endpoint and counts a connection. A new client may take the place of the
// oldest, so that there are most at most.
func (t *templates) use(client netip.Addr, to *endpoint, now time.Time, most int) *template {
	x := t.by[client]
	if x == nil {
		if t.by == nil {
			t.by = map[netip.Addr]*template{}
		}
		for t.len() >= most {
			t.remove(t.order.Front().Value.(*template))
		}
		x = &template{client: client}
		x.at = t.order.PushBack(x)
		t.by[client] = x
	}
	if x.to != to {
		if x.to != nil {
			x.to.persist--
		}
		x.to = to
		to.persist++
	}
	x.conns++
	t.touch(x, now)
	return x
}

// leave counts down a connection. The template may have been removed meanwhile.
func (t *templates) leave(x *template, now time.Time) {
	x.conns--
	if t.by[x.client] == x {
		t.touch(x, now)
	}
}

func (t *templates) touch(x *template, now time.Time) {
	x.used = now
	t.order.MoveToBack(x.at)
}

func (t *templates) remove(x *template) {
	x.to.persist--
	t.order.Remove(x.at)
	delete(t.by, x.client)
}

// expire removes templates that were not used for the timeout. Those in use get another period,
// as in IPVS.
func (t *templates) expire(now time.Time, timeout time.Duration) {
	for front := t.order.Front(); front != nil; front = t.order.Front() {
		x := front.Value.(*template)
		switch {
		case now.Sub(x.used) < timeout:
			return
		case x.conns > 0:
			t.touch(x, now)
		default:
			t.remove(x)
		}
	}
}

// clear forgets all clients.
func (t *templates) clear() {
	for _, x := range t.by {
		x.to.persist--
	}
	*t = templates{}
}

// timeout is the service's for templates, 1 s at least.
func (s *service) timeout() time.Duration {
	return max(time.Duration(s.virtual.Timeout)*time.Second, time.Second)
}
