package dns

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/sources"
)

// FileName is the file in stateDir that has the last good answers.
const FileName = "dns.json"

const (
	mostKept = 64 << 20 // bytes
	// keepPause is the shortest time between two writes. The times of answers are written each keepTimes: an answer
	// counts as that much older after a restart.
	keepPause = time.Second
	keepTimes = time.Minute
)

// kept is the file of answers.
type kept struct {
	path    string
	changed chan struct{} // something did
	written string
}

// keptAnswer is one answer in it.
type keptAnswer struct {
	Name      string        `json:"name"`
	SRV       bool          `json:"srv,omitempty"`
	V6        bool          `json:"v6,omitempty"`
	Good      time.Time     `json:"good"`
	Addresses []keptAddress `json:"addresses"`
}

type keptAddress struct {
	Addr   netip.Addr `json:"addr"`
	Port   uint16     `json:"port,omitempty"`
	Weight uint16     `json:"weight,omitempty"`
	Backup bool       `json:"backup,omitempty"`
}

// recall takes the answers of an earlier run. A file that cannot be read has none.
func (n *Names) recall() {
	if n.kept.path == "" {
		return
	}
	data, err := statefile.Read(n.kept.path, mostKept)
	if err != nil {
		return
	}
	for k, e := range parseKept(data, n.now(), n.o.Policy) {
		n.entries[k] = e
	}
}

// parseKept reads the file. The future has no answers: a clock that was set back makes none last longer.
func parseKept(data []byte, now time.Time, p Policy) map[Key]*entry {
	var all []keptAnswer
	if json.Unmarshal(data, &all) != nil || len(all) > mostNames {
		return nil
	}
	entries := map[Key]*entry{}
	for _, a := range all {
		if sources.CheckHost(a.Name) != nil || a.Good.After(now) || len(a.Addresses) > sources.MostAddresses {
			continue
		}
		e := &entry{Known: Known{Good: a.Good, Stale: now.Sub(a.Good) >= p.Keep}}
		for _, at := range a.Addresses {
			if at.Addr.IsValid() && at.Addr.Is4() != a.V6 && (at.Port != 0) == a.SRV {
				e.Addresses = append(e.Addresses, sources.NameAddress{Addr: at.Addr, Port: at.Port, Weight: uint32(at.Weight),
					Backup: at.Backup})
			}
		}
		slices.SortFunc(e.Addresses, compareAddresses)
		e.Addresses = slices.CompactFunc(e.Addresses, sameAddress)
		entries[Key{a.Name, a.SRV, a.V6}] = e
	}
	return entries
}

// text returns the file's content.
func (n *Names) text() ([]byte, error) {
	list := []keptAnswer{}
	for k, e := range n.entries {
		if len(e.Addresses) == 0 {
			continue
		}
		a := keptAnswer{Name: k.Host, SRV: k.SRV, V6: k.V6, Good: e.Good.UTC().Truncate(time.Second)}
		for _, at := range e.Addresses {
			a.Addresses = append(a.Addresses, keptAddress{at.Addr, at.Port, uint16(at.Weight), at.Backup})
		}
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b keptAnswer) int { return Key{a.Name, a.SRV, a.V6}.compare(Key{b.Name, b.SRV, b.V6}) })
	return json.Marshal(list)
}

// keepAll writes the file when something changed, and each keepTimes for the times of answers, until ctx ends. A disk
// that hangs delays no answer.
func (n *Names) keepAll(ctx context.Context) {
	if n.kept.path == "" {
		return
	}
	for {
		sleep(ctx, keepTimes, n.kept.changed)
		n.keep()
		if !sleep(ctx, keepPause, nil) {
			return
		}
	}
}

func (n *Names) keep() {
	n.mu.Lock()
	text, err := n.text()
	n.mu.Unlock()
	if err != nil || string(text) == n.kept.written {
		return
	}
	_ = n.o.Keeper.Do(FileName, func() error { // the Keeper says the error
		if err := statefile.Write(n.kept.path, text, 0o600); err != nil {
			return fmt.Errorf("after a restart %s has older answers: %w", FileName, err)
		}
		return nil
	})
	n.kept.written = string(text)
}
