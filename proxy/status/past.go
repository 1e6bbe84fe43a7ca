package status

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// The past is ten minutes long.
const (
	PastPeriod  = 10 * time.Second
	pastSamples = 60
	// maxPast bounds the services that have a past of their own: those with traffic. A thousand of them need 750 KB.
	maxPast = 2000
)

// Past is the traffic of the last ten minutes, of all services and of those that had any. Its zero value is empty and
// ready for use. Its methods may be called from any goroutine.
type Past struct {
	mu       sync.Mutex
	at       time.Time // of the last sample
	count    int       // samples so far; that of number n is at n % pastSamples
	all      pastSeries
	services map[string]*pastSeries
	before   []kernel.VirtualCounters
	busy     map[kernel.VirtualKey]Traffic // of a sample; kept for its memory
}

// pastSeries has the rates of a service. A rate of a sample that is not known is negative.
type pastSeries struct {
	rates [pastSamples]PastRate
	quiet int // samples since the last traffic
}

// PastRate is what a service got in a second.
type PastRate struct{ Conns, In, Out float32 }

var unknownRate = PastRate{-1, -1, -1}

// Sample reads the counters of virtual servers. Those of real servers would take several times as long, and the daemon
// does this all the time: only where some have thresholds, so that it is seen which are full. Call it every PastPeriod.
// Where nothing counts it does nothing.
func (r *Reader) Sample(ctx context.Context, p *Past) error {
	s := r.Proxy.Snapshot()
	counts, counted := r.Counters.(VirtualCounter)
	if !counted || s == nil || s.Frontends == nil || s.ByRules() {
		return nil
	}
	now, err := counts.Virtuals(ctx)
	if err != nil {
		return err
	}
	p.add(time.Now(), now, s.Frontends)
	if limited(s.Want.Reals) {
		_, _, err = r.counters(ctx, s)
		return err
	}
	return nil
}

// add adds a sample. Counters that fell are of virtual servers that were made again: they count from 0.
func (p *Past) add(now time.Time, virtuals []kernel.VirtualCounters, f *frontend.Frontends) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seconds := now.Sub(p.at).Seconds()
	known := p.count > 0 && seconds > 0 && seconds < 3*PastPeriod.Seconds()
	if p.services == nil {
		p.services, p.busy = map[string]*pastSeries{}, map[kernel.VirtualKey]Traffic{}
	}
	at := p.count % pastSamples
	p.all.rates[at] = PastRate{}
	for name, s := range p.services {
		if s.rates[at] = (PastRate{}); !known {
			s.rates[at] = unknownRate
		}
		if s.quiet++; s.quiet >= pastSamples {
			delete(p.services, name)
		}
	}
	if known {
		p.grown(virtuals)
		for i := range f.Fronts {
			x := &f.Fronts[i]
			if t, busy := p.busy[x.Key]; busy {
				p.note(at, f.Service(x).DisplayName(), t, seconds)
			}
		}
	} else {
		p.all.rates[at] = unknownRate
	}
	p.at, p.before = now, virtuals
	p.count++
}

// grown fills busy: by how much counters grew since the last sample. Both lists are sorted.
func (p *Past) grown(now []kernel.VirtualCounters) {
	clear(p.busy)
	before := p.before
	for i := range now {
		v := &now[i]
		for len(before) > 0 && before[0].Key.Compare(v.Key) < 0 {
			before = before[1:]
		}
		var was Traffic
		if len(before) > 0 && before[0].Key == v.Key {
			was = traffic(before[0].Traffic)
		}
		is := traffic(v.Traffic)
		if is.Connections < was.Connections || is.InBytes < was.InBytes || is.OutBytes < was.OutBytes {
			was = Traffic{}
		}
		if is != was {
			p.busy[v.Key] = Traffic{
				Connections: is.Connections - was.Connections, InBytes: is.InBytes - was.InBytes,
				OutBytes: is.OutBytes - was.OutBytes,
			}
		}
	}
}

// note adds traffic of a virtual server to its service.
func (p *Past) note(at int, name string, t Traffic, seconds float64) {
	s := p.services[name]
	if s == nil && len(p.services) < maxPast {
		s = new(pastSeries)
		for i, r := range p.all.rates {
			if r == unknownRate {
				s.rates[i] = r
			}
		}
		p.services[name] = s
	}
	for _, to := range []*pastSeries{&p.all, s} {
		if to == nil {
			continue
		}
		r := &to.rates[at]
		r.Conns += float32(float64(t.Connections) / seconds)
		r.In += float32(float64(t.InBytes) / seconds)
		r.Out += float32(float64(t.OutBytes) / seconds)
		to.quiet = 0
	}
}

// PastView is a part of the past for JSON, oldest first. A rate that is not known is -1.
type PastView struct {
	Seconds     float64   `json:"seconds"` // between two samples
	Connections []float32 `json:"connections"`
	In          []float32 `json:"inBytes"`
	Out         []float32 `json:"outBytes"`
	// Services are those that had traffic.
	Services map[string]PastService `json:"services"`
}

// PastService has the connections per second of a service, and what it gets now.
type PastService struct {
	Connections []float32 `json:"connections"`
	In          float32   `json:"inBytes"`
	Out         float32   `json:"outBytes"`
}

// View returns the past of all services, and of those with these names.
func (p *Past) View(names []string) PastView {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := PastView{Seconds: PastPeriod.Seconds(), Services: map[string]PastService{}}
	v.Connections = p.listed(func(i int) float32 { return p.all.rates[i].Conns })
	v.In = p.listed(func(i int) float32 { return p.all.rates[i].In })
	v.Out = p.listed(func(i int) float32 { return p.all.rates[i].Out })
	for _, name := range names {
		if s := p.services[name]; s != nil {
			now := s.rates[(p.count-1)%pastSamples]
			v.Services[name] = PastService{p.listed(func(i int) float32 { return s.rates[i].Conns }), now.In, now.Out}
		}
	}
	return v
}

// listed lists samples, oldest first, in three significant digits at least.
func (p *Past) listed(of func(int) float32) []float32 {
	list := []float32{}
	for n := max(0, p.count-pastSamples); n < p.count; n++ {
		value := float64(of(n % pastSamples))
		if value < 100 {
			value = math.Round(value*10) / 10
		} else {
			value = math.Round(value)
		}
		list = append(list, float32(value))
	}
	return list
}

// Rates returns what services got in the last sample, by name. Those without traffic and those that are not known are
// left out.
func (p *Past) Rates() map[string]PastRate {
	p.mu.Lock()
	defer p.mu.Unlock()
	rates := make(map[string]PastRate, len(p.services))
	for name, s := range p.services {
		if r := s.rates[(p.count-1)%pastSamples]; r.Conns >= 0 && r != (PastRate{}) {
			rates[name] = r
		}
	}
	return rates
}
