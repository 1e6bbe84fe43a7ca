package file

import (
	"fmt"
	"slices"

	"github.com/svcproxy/svcproxy/sources"
)

// outcome joins the last good content of all files in order of path. The error is nil or a *sources.RejectedError.
func (g *guard) outcome() (sources.Table, error) {
	var tables []sources.Table
	var lists sources.Lists
	good, unserved := false, false // of services
	rejected := &sources.RejectedError{Problems: slices.Clone(g.unread), Incomplete: len(g.unread) > 0}
	for _, path := range g.paths() {
		f := g.files[path]
		if s := f.served; s != nil {
			good = good || f.list == ""
			lists = append(lists, s.reading.table.Lists...)
			if s.reading.table.Services.Len() > 0 {
				tables = append(tables, s.reading.table)
			}
			if s.earlier {
				rejected.Stale = append(rejected.Stale, sources.StaleFile{Path: path, Good: s.since})
			}
		}
		if p := g.pending[path]; p.verdict.action == hold && f.served == nil && f.unknown && f.problems == nil {
			rejected.Incomplete = true
			rejected.Problems = append(rejected.Problems, problemOf(path, p.verdict.why+": it is waited for"))
		}
		if len(f.problems) > 0 {
			g.addRefused(rejected, path, f)
			unserved = unserved || f.list == "" && slices.Contains(rejected.Unserved, path)
		}
	}
	g.addLost(rejected)
	table := joined(tables)
	table.Lists = lists // a folder's files are in order of name
	if len(rejected.Problems) == 0 {
		return table, nil
	}
	sources.SortProblems(rejected.Problems)
	rejected.Nothing = !good && unserved
	return table, rejected
}

// addRefused adds the problems of one file, and what is served instead.
func (g *guard) addRefused(rejected *sources.RejectedError, path string, f *file) {
	rejected.Files = append(rejected.Files, path)
	problems := slices.Clone(f.problems)
	switch {
	case f.served != nil:
		problems[0].Message += "; serving the last good content of " + f.served.since.Local().Format("2006-01-02 15:04")
	case !f.judged.absent && !g.checking:
		problems[0].Message += "; nothing of this file is served until it is mended"
		rejected.Unserved = append(rejected.Unserved, path)
	}
	rejected.Problems = append(rejected.Problems, problems...)
	rejected.Incomplete = rejected.Incomplete || f.served == nil && (f.unknown || f.judged.absent)
}

// addLost adds the problems of missing directories, with the number of the files that each had.
func (g *guard) addLost(rejected *sources.RejectedError) {
	for _, dir := range g.lost {
		had := 0
		for path, f := range g.files {
			if f.served != nil && below(dir.path, path) {
				had++
			}
		}
		if had == 0 {
			continue
		}
		why := "is not there and had %s: their last good content is served; to have none, make it again without them"
		if dir.elsewhere {
			why = "is on another file system, without files, and had %s: their last good content is served until the " +
				"other one is mounted; to have none, put an empty services file there"
		}
		rejected.Files = append(rejected.Files, dir.path)
		rejected.Problems = append(rejected.Problems, problemOf(dir.path, fmt.Sprintf(why, sources.Count(had, "file"))))
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
