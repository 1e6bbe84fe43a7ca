package file

import (
	"maps"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// file is what is known of one file.
type file struct {
	list     string            // the name of the list that it is; "": it has services
	unknown  bool              // it may have been good in an earlier run, whose record is lost
	served   *served           // its last good content; nil: none
	judged   look              // what was judged last, without content
	problems []sources.Problem // why that is refused
}

// served is the last good content of a file.
type served struct {
	reading  reading
	warnings []sources.Problem
	since    time.Time // when it was accepted
	earlier  bool      // an earlier run accepted it, and this one none yet
}

// lostDir is a directory whose files are gone with it.
type lostDir struct {
	path      string
	elsewhere bool // it is there, on another mount
}

// forget drops a file that has left.
func (g *guard) forget(path string) {
	delete(g.files, path)
	delete(g.pending, path)
	g.unsaved[path], g.order = nil, nil
}

// leaving delays the end of all files that are gone by that of another: when a directory is removed with its files, the
// files go first, and then the missing directory keeps their content.
func (g *guard) leaving(at time.Time) {
	for path, p := range g.pending {
		if p.now.absent && p.verdict.why != "" {
			p.changed, p.verdict.until = at, at.Add(p.verdict.patience)
			g.pending[path] = p
		}
	}
}

// directories takes what is new about directories, after a full listing, and reports whether the outcome changed.
func (g *guard) directories(l *listing, at time.Time) (changed bool) {
	var lost []lostDir
	add := func(dirs []string, elsewhere bool) {
		for _, dir := range dirs {
			for path, f := range g.files {
				if f.served != nil && below(dir, path) {
					lost = append(lost, lostDir{dir, elsewhere})
					break
				}
			}
		}
	}
	add(l.absent, false)
	add(l.elsewhere, true)
	for path := range g.pending { // of a directory, if of no file
		if g.files[path] == nil && !slices.Contains(l.passing, path) {
			delete(g.pending, path)
		}
	}
	for _, dir := range l.passing {
		p := g.pending[dir]
		if !at.Before(p.verdict.until) {
			p.pause = RetryAfter(p.pause)
			p.verdict = verdict{action: keep, until: at.Add(p.pause)}
		}
		g.pending[dir] = p
	}
	changed = !slices.Equal(g.unread, l.problems) || !slices.Equal(g.lost, lost)
	g.unread, g.lost = l.problems, lost
	return changed
}

// takeUnsaved returns what was accepted, or has left, since the last call.
func (g *guard) takeUnsaved() copies {
	unsaved := g.unsaved
	g.unsaved = copies{}
	return unsaved
}

// mountPoints are those of the directories that had files, to be kept for the next start.
func (g *guard) mountPoints() map[string]string {
	points := make(map[string]string, len(g.mounts))
	for dir, m := range g.mounts {
		points[dir] = m.point
	}
	return points
}

// warnings are about the content that is served.
func (g *guard) warnings() (all []sources.Problem) {
	for _, f := range g.files {
		if f.served != nil {
			all = append(all, f.served.warnings...)
		}
	}
	sources.SortProblems(all)
	return all
}

// paths are those of all files, sorted.
func (g *guard) paths() []string {
	if g.order == nil {
		g.order = slices.Sorted(maps.Keys(g.files))
	}
	return g.order
}
