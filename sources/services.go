package sources

import (
	"iter"
	"slices"
	"weak"
)

// Services is a list of services in pages. It is a value: nothing changes a list that was handed on. Lists that follow
// each other share all pages but those of services that changed.
type Services struct {
	pages [][]Service // all of pageLength, but for the last one
}

// pageLength is how many services a page has. A change copies one page and the list of pages: among 50,000 services 26
// and 19 kB.
const pageLength = 64

// ServicesOf returns a list of services. It keeps the slice.
func ServicesOf(services ...Service) Services {
	if len(services) == 0 {
		return Services{}
	}
	return Services{slices.Collect(slices.Chunk(services, pageLength))}
}

// Len counts the services.
func (l Services) Len() int {
	if len(l.pages) == 0 {
		return 0
	}
	last := len(l.pages) - 1
	return last*pageLength + len(l.pages[last])
}

// At returns the service with an index. Only who made the list may change it, and only before it is handed on.
func (l Services) At(i int) *Service { return &l.pages[i/pageLength][i%pageLength] }

// All gives the services with their indexes.
func (l Services) All() iter.Seq2[int, *Service] {
	return func(yield func(int, *Service) bool) {
		for n, page := range l.pages {
			for i := range page {
				if !yield(n*pageLength+i, &page[i]) {
					return
				}
			}
		}
	}
}

// ContainsFunc reports whether any service satisfies f.
func (l Services) ContainsFunc(f func(*Service) bool) bool {
	for _, s := range l.All() {
		if f(s) {
			return true
		}
	}
	return false
}

// Slice returns a copy of the services.
func (l Services) Slice() []Service { return slices.Concat(l.pages...) }

// weak returns a pointer that tells lists apart, and keeps none in memory.
func (l Services) weak() weak.Pointer[[]Service] { return weak.Make(&l.pages[0]) }

// Same reports whether two lists are the same memory.
func (l Services) Same(o Services) bool { return identical(l.pages, o.pages) }

// Append returns the list with more services behind it.
func (l Services) Append(more ...Service) Services {
	if len(l.pages) == 0 {
		return ServicesOf(more...)
	}
	last := len(l.pages) - 1
	return Services{slices.Concat(l.pages[:last], ServicesOf(slices.Concat(l.pages[last], more)...).pages)}
}

// With returns the list with others in the place of the services with some indexes, which ascend.
func (l Services) With(indexes []int, other func(i int) Service) Services {
	if len(indexes) == 0 {
		return l
	}
	now, copied := Services{slices.Clone(l.pages)}, -1
	for _, i := range indexes {
		if page := i / pageLength; page != copied {
			now.pages[page], copied = slices.Clone(now.pages[page]), page
		}
		*now.At(i) = other(i)
	}
	return now
}
