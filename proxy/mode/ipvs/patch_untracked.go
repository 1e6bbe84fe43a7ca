package ipvs

import (
	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// patchUntracked notes what changed for the sets of untracked services. It returns false if other fronts may be untracked
// than before.
func (p *patch) patchUntracked() bool {
	u := p.untracked
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
	for _, f := range p.now.Config.Families() {
		if len(p.state.Entries.Of(p.config.Names.Set(f, kernel.Untracked))) == 0 {
			continue
		}
		replies, hairpins := p.config.Names.Set(f, kernel.UntrackedReply), p.config.Names.Set(f, kernel.TrackedEndpoints)
		for _, s := range p.changed {
			p.replace(before.appendReplies(nil, s.Fronts, f, replies), u.appendReplies(nil, s.Fronts, f, replies))
			p.replace(appendHairpins(nil, p.last, s.Service, f, hairpins), appendHairpins(nil, p.now, s.Service, f, hairpins))
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
