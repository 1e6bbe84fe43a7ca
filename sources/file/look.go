package file

import "time"

// look is what one reading found at the path of a file.
type look struct {
	id      identity
	real    string // the path that links lead to; "" = not known
	renamed int64  // when a name in the directory of real came, went or was replaced last, as times of identity
	content Content
	err     error // why there is no content

	sure   bool // another look that finds the same id finds the same content
	absent bool // there is no file, nor a link
	named  bool // of an absent one: the configuration names it, so it should be there
	hidden bool // its directory is gone, not mounted or cannot be listed, which is a problem of that
}

// replaces reports whether another file was put in the place of the one judged last, when it was complete: its name is
// newer than its content. A file that was created here and is written since has newer content.
//
// That is sure only of a file that moved. Two others look as if it had been renamed: one that was removed, created and
// written in one tick, and one that is being written while another name in its directory comes or goes.
func (l look) replaces(was look) bool {
	switch {
	case was.id == identity{} || l.id == identity{}:
		return false
	case l.real != was.real:
		return true
	case l.id.sameFile(was.id):
		return false
	}
	return l.id.change > l.id.written || l.renamed >= l.id.written
}

// settled is from when on another change would not have the time of the last one, which is in ticks of the kernel's
// clock, or in whole seconds where the file system has no others.
func (l look) settled(tick time.Duration) time.Time {
	if l.id.written%1e9 == 0 {
		tick = 2 * time.Second
	}
	return time.Unix(0, l.id.written).Add(tick)
}

// moved reports whether the file was renamed in a later tick than it was written in. A change of its mode or owner
// cannot be told from that.
func (l look) moved() bool { return l.id.change > l.id.written && l.id.written%1e9 != 0 }
