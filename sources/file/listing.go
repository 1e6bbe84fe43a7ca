package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/svcproxy/svcproxy/sources"
)

// listing is the files that the configured paths lead to at one moment, and the directory entries that could change
// that. A path is followed from the root, link by link, and each directory on the way is watched for one name. So a
// directory that does not exist yet, a ConfigMap's ..data link and a directory renamed over another are all a
// changed name in a directory.
type listing struct {
	files   []string        // existing files, sorted
	missing []string        // files that the configuration names and that do not exist, sorted
	named   map[string]bool // all files that the configuration names

	dirs     map[string]*interest // by real path
	ends     map[string][]string  // by the real path of a file: the configured names that lead there
	visit    func(dir string)     // called before a directory is first looked into
	absent   []string             // directories, as configured, that do not exist
	unlisted []string             // directories, as configured, that could not be listed
	problems []sources.Problem    // why they could not
	passing  []string             // of these, those that could not be listed for a reason that may pass

	ids       map[string]uint64 // by real path: the numbers of the mounts of dirs
	mounts    map[string]mount  // by directory, as configured: those that a glob finds files in
	elsewhere []string          // of these, those whose files were on another mount and are gone

	lists string // see list

	stats  int // stat calls
	listed int // directories listed
}

// interest is the names of a directory that matter.
type interest struct {
	names map[string]bool
	globs []glob
}

// glob is a pattern for the names in a directory.
type glob struct {
	pattern string
	prefix  string // the directory as configured
	lists   bool   // it is that of lists
	last    bool   // it finds files, not directories on the way to them
}

// list follows absolute paths, each a name or, unless they are literal, a glob. It calls visit for each
// directory before it looks into it, so that a watch set by visit misses nothing. lists is the folder of lists, or "".
func list(paths []string, literal bool, lists string, visit func(dir string)) *listing {
	l := &listing{
		named: map[string]bool{}, dirs: map[string]*interest{}, ends: map[string][]string{}, visit: visit,
		ids: map[string]uint64{}, mounts: map[string]mount{}, lists: lists,
	}
	for _, p := range paths {
		if literal || !hasMeta(p) {
			l.add(filepath.Join("/", p), true)
		} else {
			l.expand("/", components(p))
		}
	}
	if lists != "" {
		l.expand("/", append(components(lists), "*"))
	}
	slices.Sort(l.files)
	l.files = slices.Compact(l.files)
	slices.Sort(l.missing)
	l.missing = slices.Compact(l.missing)
	return l
}

func components(path string) []string {
	return strings.FieldsFunc(filepath.Clean(path), func(r rune) bool { return r == '/' })
}

// hasMeta reports whether a path is a glob, in filepath.Match's syntax.
func hasMeta(path string) bool { return strings.ContainsAny(path, `*?[\`) }

// add looks for one file. A path that a glob leads to may go through a regular file.
func (l *listing) add(path string, named bool) {
	if named {
		l.named[path] = true
	}
	// If the path ends early, the directories up to there are watched. Reading reports the error.
	if end, err := l.follow("/", components(path), 0); err == nil && !slices.Contains(l.ends[end], path) {
		l.ends[end] = append(l.ends[end], path)
	}
	l.stats++
	switch _, err := os.Lstat(path); {
	case !errors.Is(err, fs.ErrNotExist) && (named || !errors.Is(err, syscall.ENOTDIR)):
		l.files = append(l.files, path)
	case named:
		l.missing = append(l.missing, path)
	}
}

// expand finds the files below prefix that rest leads to.
func (l *listing) expand(prefix string, rest []string) {
	i := slices.IndexFunc(rest, hasMeta)
	if i < 0 {
		path := filepath.Join(prefix, filepath.Join(rest...))
		l.add(path, false)
		l.place(filepath.Dir(path))
		return
	}
	prefix = filepath.Join(prefix, filepath.Join(rest[:i]...))
	dir, err := l.follow("/", components(prefix), 0)
	if err != nil {
		l.unlist(prefix, err)
		return
	}
	g := glob{rest[i], prefix, prefix == l.lists, i == len(rest)-1}
	at := l.look(dir)
	if !slices.Contains(at.globs, g) {
		at.globs = append(at.globs, g)
	}
	l.listed++
	entries, id, err := readDir(dir)
	if err != nil {
		l.unlist(prefix, err)
		return
	}
	l.mounted(prefix, dir, id)
	for _, e := range entries {
		switch {
		case !g.matches(e.Name()):
		case g.last && e.Type().IsRegular():
			l.files = append(l.files, filepath.Join(prefix, e.Name()))
		default:
			l.expand(filepath.Join(prefix, e.Name()), rest[i+1:])
		}
	}
}

// refresh updates the listing after an event of one real path, and returns the files that it concerns, whether they
// exist or not. It returns false if more may have changed than regular files; then everything must be listed again.
func (l *listing) refresh(real string) (files []string, ok bool) {
	name, at := filepath.Base(real), l.dirs[filepath.Dir(real)]
	if at == nil {
		return nil, true
	}
	l.stats++
	info, err := os.Lstat(real)
	regular := err == nil && info.Mode().IsRegular()
	if at.names[name] {
		if files = slices.Clone(l.ends[real]); files == nil || !regular {
			return nil, false
		}
	}
	for _, g := range at.globs {
		if !g.matches(name) {
			continue
		}
		path := filepath.Join(g.prefix, name)
		i, listed := slices.BinarySearch(l.files, path)
		switch {
		case !g.last, !regular && !errors.Is(err, fs.ErrNotExist), !regular && l.named[path]:
			return nil, false
		case !regular && listed && l.remounted(filepath.Dir(real)):
			return nil, false // the file is still there, on the mount that is gone
		case regular && !listed:
			l.files = slices.Insert(l.files, i, path)
		case !regular && listed:
			l.files = slices.Delete(l.files, i, i+1)
		}
		files = append(files, path)
	}
	return files, true
}

// unlist notes that a directory could not be listed. One that does not exist is not a problem by itself: it may
// never have existed. The files of any other may still be there.
func (l *listing) unlist(dir string, err error) {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		l.absent = append(l.absent, dir)
		return
	}
	if Passing(err) {
		l.passing = append(l.passing, dir)
	}
	l.unlisted = append(l.unlisted, dir)
	l.problems = append(l.problems, unreadable(dir, "cannot list the directory: ", err))
}

// mayHold reports whether a file that was not found may still exist, or has gone with its directory.
func (l *listing) mayHold(path string) bool {
	above := func(dir string) bool { return below(dir, path) }
	return l.named[path] || slices.ContainsFunc(l.unlisted, above) || slices.ContainsFunc(l.absent, above) ||
		slices.ContainsFunc(l.elsewhere, above)
}

// below reports whether a path is in a directory, or in one below it.
func below(dir, path string) bool { return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") }

// matches is a shell's match: a wildcard does not match a leading dot, so that the lock and swap files of editors
// are left out. Of lists more are: see isListName.
func (g glob) matches(name string) bool {
	ok, _ := filepath.Match(g.pattern, name)
	return ok && (name[0] != '.' || g.pattern[0] == '.') && (!g.lists || isListName(name))
}

// maxLinks is how many symbolic links a path may go through: Linux' own limit.
const maxLinks = 40

// follow goes from a real directory along names, through links, and returns the real path reached.
func (l *listing) follow(dir string, rest []string, links int) (string, error) {
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case ".":
			continue
		case "..":
			dir = filepath.Dir(dir)
			continue
		}
		l.look(dir).names[name] = true
		path := filepath.Join(dir, name)
		l.stats++
		info, err := os.Lstat(path)
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			dir = path
			continue
		}
		target, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if links++; links > maxLinks {
			return "", syscall.ELOOP
		}
		if filepath.IsAbs(target) {
			dir = "/"
		}
		// Not cleaned: "link/.." is the parent of the link's target.
		names := strings.FieldsFunc(target, func(r rune) bool { return r == '/' })
		rest = append(names, rest...)
	}
	return dir, nil
}

// look returns the interest in a directory. It visits the directory the first time.
func (l *listing) look(dir string) *interest {
	at := l.dirs[dir]
	if at == nil {
		at = &interest{names: map[string]bool{}}
		l.dirs[dir] = at
		l.visit(dir)
		if id, err := mountID(dir); err == nil {
			l.ids[dir] = id
		}
	}
	return at
}

// concerns reports whether a change at this path could change the listing or a file's content.
func (l *listing) concerns(path string) bool {
	path = filepath.Clean(path)
	at := l.dirs[filepath.Dir(path)]
	if at == nil {
		return false
	}
	name := filepath.Base(path)
	return at.names[name] || slices.ContainsFunc(at.globs, func(g glob) bool { return g.matches(name) })
}

// cause is an error without the system call and the path, which the message has already.
func cause(err error) error {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
