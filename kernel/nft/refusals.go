package nft

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Refusals reads what the rules of the table of limits have counted. When a rule goes or is written again, its count
// ends; the kernel tells that with the commit, and the process keeps it. Any goroutine may use it.
type Refusals struct {
	table *Table // of the reader; nil before the first Read
	ended ended
}

// NewRefusals returns what OpenLimits fills and Read reads.
func NewRefusals(n kernel.Names) *Refusals { return &Refusals{ended: ended{names: n}} }

// maxEchoedChains bounds the chains of a transaction whose counts the kernel tells, as maxEchoed does: a chain has up
// to nine rules.
const maxEchoedChains = maxEchoed / 10

// Read returns the refusals of each service with limits, by the hash of its name: since its rules were written first,
// of the time before this process only what its rules have not lost. One goroutine at a time may call it. Changes wait
// meanwhile.
func (r *Refusals) Read(d *nl.Dialer) (all map[string]kernel.Refusals, err error) {
	r.ended.mu.Lock()
	defer r.ended.mu.Unlock()
	if r.table == nil {
		if r.table, err = OpenLimits(d, r.ended.names, r); err != nil {
			return nil, err
		}
	}
	all = make(map[string]kernel.Refusals)
	for _, f := range families {
		var found []refusal
		ask := func(b *nl.Batch) { b.Text(unix.NFTA_RULE_TABLE, r.table.table) }
		err := r.table.dump(unix.NFT_MSG_GETRULE, f, ask, func() { found = nil }, func(a nl.Attrs) error {
			x, err := r.ended.refusal(a)
			found = append(found, x)
			return err
		})
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return nil, fmt.Errorf("reading the limits of nftables: %w", err)
		}
		for _, x := range found {
			x.addTo(all)
		}
	}
	for hash, lost := range r.ended.refused {
		if all[hash] == nil { // the service has no limits any more
			delete(r.ended.refused, hash)
			continue
		}
		for why, n := range lost {
			refusal{hash, why, n}.addTo(all)
		}
	}
	return all, nil
}

// Close releases the socket of the reader.
func (r *Refusals) Close() error {
	if r.table == nil {
		return nil
	}
	return r.table.Close()
}

// refusal is what one rule has counted. Without a hash it refuses nothing.
type refusal struct {
	hash    string
	why     kernel.Reason
	packets uint64
}

func (x refusal) addTo(all map[string]kernel.Refusals) {
	if x.hash == "" {
		return
	}
	if all[x.hash] == nil {
		all[x.hash] = make(kernel.Refusals)
	}
	all[x.hash][x.why] += x.packets
}

// refusal decodes a rule.
func (e *ended) refusal(a nl.Attrs) (x refusal, err error) {
	var chain, table, words string
	for a.Next() {
		switch a.Type() {
		case unix.NFTA_RULE_TABLE:
			table = a.Text()
		case unix.NFTA_RULE_CHAIN:
			_, chain, _ = cutChain(a.Text())
		case unix.NFTA_RULE_USERDATA:
			words = wordsOf(a.Bytes())
		case unix.NFTA_RULE_EXPRESSIONS:
			for list := a.Nested(); list.Next(); {
				if n, counted := packets(list.Nested()); counted {
					x.packets = n
				}
			}
		}
	}
	hash, why, ok := e.names.Refusal(chain, words)
	if ok && table == e.names.LimitsTable() {
		x.hash, x.why = hash, why
	}
	return x, a.Err()
}

// addRule keeps what a removed rule counted. A message that is not understood has a count that is lost, no more.
func (e *ended) addRule(p []byte) {
	a, err := payload(p)
	if err != nil {
		return
	}
	if x, err := e.refusal(a); err == nil && x.packets > 0 {
		if e.refused == nil || len(e.refused) > maxEnded {
			e.refused = make(map[string]kernel.Refusals)
		}
		x.addTo(e.refused)
	}
}
