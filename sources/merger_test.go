package sources_test

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/sources"
)

// Whatever changes from one time to the next, a Merger gives what Merge does.
func TestMergerIsMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m sources.Merger
		now := []sources.Table{tables("a").Draw(t, "a"), tables("b").Draw(t, "b")}
		for range rapid.IntRange(1, 6).Draw(t, "rounds") {
			got, gotProblems := m.Merge(now...)
			want, wantProblems := sources.Merge(now...)
			if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(gotProblems, wantProblems) {
				t.Fatalf("got  %+v, %v\nwant %+v, %v", got, gotProblems, want, wantProblems)
			}
			i := rapid.IntRange(0, 1).Draw(t, "table")
			if rapid.IntRange(0, 3).Draw(t, "what") == 0 {
				now[i] = tables("a").Draw(t, "other")
				continue
			}
			now[i] = otherEndpoints(t, now[i])
		}
	})
}

// Whatever changes from one table to the next, Revalidate gives what Validate does.
func TestRevalidateIsValidate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := tables("a").Draw(t, "before")
		host := sources.HostFacts{Unmasqueraded: rapid.Bool().Draw(t, "unmasqueraded")}
		_, refused := sources.Validate(before, host)
		before.Services = slices.DeleteFunc(before.Services, func(s sources.Service) bool {
			return slices.ContainsFunc(refused, func(p sources.Problem) bool { return p.Service == s.FullName() })
		})
		now := otherEndpoints(t, before)
		warnings, errs := sources.Revalidate(before, now, host)
		wantWarnings, wantErrs := sources.Validate(now, host)
		if !reflect.DeepEqual(warnings, wantWarnings) || !reflect.DeepEqual(errs, wantErrs) {
			t.Fatalf("got  %v, %v\nwant %v, %v", warnings, errs, wantWarnings, wantErrs)
		}
	})
}

// In a table that Validate accepts, whatever it knows of the host, Merge finds nothing to leave out.
func TestMergeOfValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := tables("a").Draw(t, "table")
		for i := range table.Services {
			if s := &table.Services[i]; rapid.Bool().Draw(t, "external") {
				s.ExternalIPs, s.ClusterIPs = s.ClusterIPs, nil
			}
		}
		host := sources.HostFacts{Addrs: []netip.Addr{addr(4), addr(5)}[:rapid.IntRange(0, 2).Draw(t, "addresses")]}
		_, refused := sources.Validate(table, host)
		table.Services = slices.DeleteFunc(table.Services, func(s sources.Service) bool {
			return slices.ContainsFunc(refused, func(p sources.Problem) bool { return p.Service == s.FullName() })
		})
		if merged, problems := sources.Merge(table); len(problems) > 0 || len(merged.Services) != len(table.Services) {
			t.Fatalf("of %+v left out %v", table, problems)
		}
	})
}

// otherEndpoints is a table with other endpoints in one service.
func otherEndpoints(t *rapid.T, table sources.Table) sources.Table {
	if len(table.Services) == 0 {
		return table
	}
	table.Services = slices.Clone(table.Services)
	s := &table.Services[rapid.IntRange(0, len(table.Services)-1).Draw(t, "service")]
	s.Endpoints = nil
	for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 0, 3, rapid.ID[int]).Draw(t, "endpoints") {
		s.Endpoints = append(s.Endpoints, sources.Endpoint{Addr: addr(i)})
	}
	return table
}

func BenchmarkMerger(b *testing.B) {
	table := many(1000)
	other := sources.Table{Services: slices.Clone(table.Services)}
	other.Services[7].Endpoints = slices.Clone(other.Services[7].Endpoints[:1])
	var m sources.Merger
	m.Merge(table, sources.Table{})
	b.ReportAllocs()
	for b.Loop() {
		m.Merge(other, sources.Table{})
		m.Merge(table, sources.Table{})
	}
}
