package file

import (
	"fmt"
	"maps"
	"slices"

	"github.com/svcproxy/svcproxy/sources"
)

// outcome joins the last good content of all files in order of path. The error is nil or a *sources.RejectedError.
func (s *store) outcome() (sources.Table, error) {
	var tables []sources.Table
	good := false
	rejected := &sources.RejectedError{Problems: slices.Clone(s.unread), Incomplete: len(s.unread) > 0}
	if s.order == nil {
		s.order = slices.Sorted(maps.Keys(s.records))
	}
	lost := make([]int, len(s.absent))
	for _, path := range s.order {
		r := s.records[path]
		good = good || r.good
		if r.reading.table.Services.Len() > 0 {
			tables = append(tables, r.reading.table)
		}
		if r.earlier {
			rejected.Stale = append(rejected.Stale, sources.StaleFile{Path: path, Good: r.since})
		}
		for i, dir := range s.absent {
			if r.good && below(dir.path, path) {
				lost[i]++
			}
		}
		if r.waiting != nil && !r.good && r.unknown {
			rejected.Incomplete = true
			rejected.Problems = append(rejected.Problems, problemOf(path, r.waiting.why+": it is waited for"))
		}
		if len(r.problems) > 0 {
			rejected.Files = append(rejected.Files, path)
			problems := slices.Clone(r.problems)
			switch {
			case r.good:
				problems[0].Message += "; serving the last good content of " + r.since.Local().Format("2006-01-02 15:04")
			case !r.missing && !s.checking:
				problems[0].Message += "; nothing of this file is served until it is mended"
				rejected.Unserved = append(rejected.Unserved, path)
			}
			rejected.Problems = append(rejected.Problems, problems...)
			rejected.Incomplete = rejected.Incomplete || !r.good && (r.unknown || r.named && r.missing)
		}
	}
	s.addAbsent(rejected, lost)
	table := joined(tables)
	if len(rejected.Problems) == 0 {
		return table, nil
	}
	sources.SortProblems(rejected.Problems)
	rejected.Nothing = !good && len(rejected.Unserved) > 0
	return table, rejected
}

// addAbsent adds the problems of missing directories; lost is how many files each had.
func (s *store) addAbsent(rejected *sources.RejectedError, lost []int) {
	for i, dir := range s.absent {
		if lost[i] > 0 {
			why := "is not there and had %s: their last good content is served; to have none, make it again without them"
			if dir.elsewhere {
				why = "is on another file system, without files, and had %s: their last good content is served until the other one is mounted; to have none, put an empty services file there"
			}
			rejected.Files = append(rejected.Files, dir.path)
			rejected.Problems = append(rejected.Problems, problemOf(dir.path, fmt.Sprintf(why, sources.Count(lost[i], "file"))))
		}
	}
	slices.Sort(rejected.Files)
}

// joined makes one table of accepted ones. Validate has refused conflicts inside one table. Those between several
// are left to sources.Merge, because they depend on the other sources and on what was served before.
func joined(tables []sources.Table) sources.Table {
	if len(tables) == 1 {
		return tables[0].Uncontested()
	}
	return sources.Join(tables...)
}

// allWarnings are about the content that is served.
func (s *store) allWarnings() []sources.Problem {
	var all []sources.Problem
	for _, r := range s.records {
		all = append(all, r.warnings...)
	}
	sources.SortProblems(all)
	return all
}
