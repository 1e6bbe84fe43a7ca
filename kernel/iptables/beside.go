package iptables

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// legacyNames list the legacy tables of a network namespace. Only root may read them.
var legacyNames = map[kernel.Family]string{
	kernel.IPv4: "/proc/thread-self/net/ip_tables_names", kernel.IPv6: "/proc/thread-self/net/ip6_tables_names",
}

// LegacyBeside finds what Tables.Barriers does not see where iptables is that of nftables: legacy
// tables that another program filled, whose rules packets pass as well. There, FORWARD counts too,
// because none of our chains precedes it. It runs a tool only if there is such a table.
func LegacyBeside(ctx context.Context, names kernel.Names) ([]kernel.Barrier, error) {
	var found []kernel.Barrier
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		list, err := os.ReadFile(legacyNames[f])
		if errors.Is(err, fs.ErrNotExist) || err == nil && !slices.Contains(strings.Fields(string(list)), "filter") {
			continue
		}
		if err != nil {
			return found, fmt.Errorf("reading the list of legacy tables: %w", err)
		}
		if tool, err := probe(ctx, find, f); err != nil || !tool.NFT {
			continue // the tables are read anyway
		}
		tool := Tool{Name: toolNames[f] + "-legacy"}
		text, err := Find(find).run(ctx, "", tool.Name+"-save", "-t", "filter")
		if errors.Is(err, exec.ErrNotFound) {
			continue
		}
		if err != nil {
			return found, fmt.Errorf("reading legacy tables: %w", err)
		}
		barriers, err := allBarriers(text, f, tool, names)
		if err != nil {
			return found, err
		}
		found = append(found, barriers...)
	}
	return found, nil
}

// allBarriers is barriers, with hook forward.
func allBarriers(text string, f kernel.Family, tool Tool, names kernel.Names) ([]kernel.Barrier, error) {
	found, err := barriers(text, f, tool, names)
	if err != nil {
		return nil, err
	}
	t, err := parseTable(text, "filter")
	b := kernel.Barrier{Family: f, Hook: "forward", Name: tool.Name + " filter FORWARD"}
	return append(found, barred(b, t.rules, "FORWARD", t.policies["FORWARD"], names)...), err
}
