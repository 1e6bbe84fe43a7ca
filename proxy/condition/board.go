package condition

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/proxy/screen"
)

// maxListed bounds what List returns of each kind.
const maxListed = 100

// maxTold bounds the conditions of a kind whose begin and end are told: a failure of all may not displace all other
// events. Those beyond it are listed all the same.
const maxTold = 10

// Board has the conditions that stand. Its zero value is empty and ready for use. Its methods may be called from any
// goroutine, and on a nil Board, which keeps nothing.
type Board struct {
	setting sync.Mutex // while one is set and told, so that what is told keeps its order

	mu       sync.Mutex
	standing map[key]*entry
	told     map[Kind]int
	follow   func(c Condition, began bool)
}

type key struct {
	Kind
	subject string
}

type entry struct {
	Condition
	told bool
}

// Follow has f called for each condition that stands, and from then on for each that begins or ends. It is called once.
// f may call List, and not Set.
func (b *Board) Follow(f func(c Condition, began bool)) {
	b.setting.Lock()
	defer b.setting.Unlock()
	for _, c := range b.List() {
		f(c, true)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.follow = f
}

// Set says that something is wrong with the subject, or that nothing is any more: text is "" then. Another
// text replaces the last one; the condition stands since it began. Without a hint it has the kind's.
func (b *Board) Set(k Kind, subject, text, hint string) {
	if b == nil {
		return
	}
	b.setting.Lock()
	defer b.setting.Unlock()
	c, began, tell := b.set(k, clean(subject), clean(text), hint)
	if tell != nil {
		tell(c, began)
	}
}

// SetAll replaces all conditions of a kind: those whose subjects are not in the list end.
func (b *Board) SetAll(k Kind, list []Condition) {
	if b == nil {
		return
	}
	now := map[string]bool{}
	for _, c := range list {
		now[clean(c.Subject)] = true
	}
	for _, subject := range b.subjects(k) {
		if !now[subject] {
			b.Set(k, subject, "", "")
		}
	}
	for _, c := range list {
		b.Set(k, c.Subject, c.Text, c.Hint)
	}
}

// set changes one condition. It returns whom to tell of it; nil if nobody is.
func (b *Board) set(k Kind, subject, text, hint string) (c Condition, began bool, tell func(Condition, bool)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if hint == "" && text != "" {
		r, _ := k.find()
		hint = r.todo
	}
	e := b.standing[key{k, subject}]
	switch {
	case e == nil && text == "":
		return c, false, nil
	case text == "":
		delete(b.standing, key{k, subject})
		if !e.told {
			return c, false, nil
		}
		b.told[k]--
		return e.Condition, false, b.follow
	case e != nil:
		e.Text, e.Hint = text, hint
		return c, false, nil
	}
	if b.standing == nil {
		b.standing, b.told = map[key]*entry{}, map[Kind]int{}
	}
	e = &entry{Condition: Condition{Kind: k, Subject: subject, Text: text, Hint: hint, Since: time.Now()}}
	b.standing[key{k, subject}] = e
	if e.told = b.told[k] < maxTold; !e.told {
		return c, false, nil
	}
	b.told[k]++
	return e.Condition, true, b.follow
}

// List returns the conditions that stand, the worst first, and those of a kind by subject. If a kind has more than 100,
// it has the first of these, and the last of them counts the others in More.
func (b *Board) List() []Condition {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]Condition, 0, len(b.standing))
	for _, e := range b.standing {
		all = append(all, e.Condition)
	}
	slices.SortFunc(all, compare)
	var list []Condition
	n := 0 // of this kind
	for i, c := range all {
		if i == 0 || c.Kind != all[i-1].Kind {
			n = 0
		}
		if n++; n > maxListed {
			list[len(list)-1].More++
			continue
		}
		list = append(list, c)
	}
	return list
}

// maxText bounds a subject and a text, in bytes.
const maxText = 500

// clean makes one line for a terminal and for systemd of what may be an error, or the name of a file.
func clean(s string) string {
	s = screen.Clean(strings.ReplaceAll(strings.TrimSpace(s), "\n", "; "))
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "..."
	}
	return s
}

// subjects are the subjects of a kind, in any order.
func (b *Board) subjects(k Kind) (list []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for at := range b.standing {
		if at.Kind == k {
			list = append(list, at.subject)
		}
	}
	return list
}
