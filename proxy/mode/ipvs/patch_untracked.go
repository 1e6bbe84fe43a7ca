package ipvs

import (
	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// keepsUntracked reports whether the same fronts are untracked with the endpoints that changed, and notes the entries of
// the sets of endpoints that this takes.
func (p *patch) keepsUntracked() bool {
	u := p.Mode.untracked
	before := *u
	before.f, u.f = p.last, p.now
	for _, i := range p.moved {
		switch x := &p.now.Fronts[i]; u.fates[i] {
		case keptForEndpoints:
			return false
		case leftOut:
			if u.onNode(x) {
				return false
			}
		case kept:
			if u.others {
				return false
			}
			before.count(x, -1)
			u.count(x, 1)
		}
	}
	for _, s := range p.changed {
		for _, f := range p.now.Config.Families() {
			set := p.config.Names.Set(f, kernel.UntrackedReply)
			p.replace(before.appendReplies(nil, s.Fronts, f, set), u.appendReplies(nil, s.Fronts, f, set))
			if set := p.config.Names.Set(f, kernel.TrackedEndpoints); u.any(f, func(*frontend.Front) bool { return true }) {
				p.replace(appendHairpins(nil, p.last, s.Service, f, set), appendHairpins(nil, p.now, s.Service, f, set))
			}
		}
	}
	for _, i := range p.moved {
		x := &p.now.Fronts[i]
		if u.fates[i] == leftOut && u.answers(x) || u.fates[i] == kept && p.answersUntracked(x) {
			return false
		}
	}
	return true
}

// answersUntracked reports whether an endpoint of a front also answers for one that is left out.
func (p *patch) answersUntracked(x *frontend.Front) bool {
	set := p.config.Names.Set(x.Key.Family(), kernel.UntrackedReply)
	for at := range p.untracked.answerers(x) {
		if e := at.entry(set); contains(p.fresh, e) || p.state.Entries.Has(e) && !contains(p.gone, e) {
			return true
		}
	}
	return false
}
