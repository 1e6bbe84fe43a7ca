package file

import (
	"cmp"
	"slices"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file/strict"
)

// reading is what a file was read as. The next reading of it takes over each service whose section, all
// text from its header to that of the next service, is still the same.
type reading struct {
	text     string
	table    sources.Table
	warnings []sources.Problem
	sections map[string]section // by their text; nil when the file was not read by sections
}

// section is what one service's text was read as.
type section struct {
	service  int               // its index in the reading's table
	values   int               // how many keys and array elements it has
	warnings []sources.Problem // their lines counted from its header's, which is 1
}

// after is Decode that need not read again what was read before, of the same file. A file that is not
// plainly sections, or in which anything is wrong, is read as a whole: only then is it known what it means
// or what to say of it.
func after(before reading, name string, data []byte) (now reading, problems []sources.Problem) {
	text := string(data)
	if now, ok := bySections(before, name, text); ok {
		return now, nil
	}
	now.text = text
	now.table, now.warnings, problems = whole(name, data)
	return now, problems
}

// bySections reads a file by its sections; false when it is not, or not faultless.
func bySections(before reading, name, text string) (reading, bool) {
	parts, ok := strict.Cut(text, "services")
	if !ok {
		return reading{}, false
	}
	d := &decoder{origin: sources.Origin{Source: "file", File: name}}
	r := strict.NewReader("services")
	services, sections, values := make([]sources.Service, len(parts)), make([]section, len(parts)), 0
	for i, p := range parts {
		if s, read := before.sections[p.Text]; read {
			services[i], sections[i] = before.table.Services[s.service], s
		} else if services[i], sections[i], ok = d.readSection(r, p); !ok {
			return reading{}, false
		}
		services[i].Origin.Line = p.Line
		if values += sections[i].values; values > strict.MaxValues {
			return reading{}, false
		}
	}
	now, ok := arranged(parts, services, sections)
	now.text = text
	return now, ok
}

// readSection reads a section that has not been read before; false when anything is wrong with it.
func (d *decoder) readSection(r *strict.Reader, p strict.Part) (sources.Service, section, bool) {
	name, v, at, values, ok := r.Parse(p)
	if !ok {
		return sources.Service{}, section{}, false
	}
	d.warnings = nil
	s, ok := d.readService(node{name, at, v})
	return s, section{values: values, warnings: d.warnings}, ok
}

// arranged makes a reading of sections in the order of the file; false when two are one service's.
func arranged(parts []strict.Part, services []sources.Service, sections []section) (reading, bool) {
	order := make([]int, len(parts))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return compareNames(&services[i], &services[j]) })
	now := reading{
		table:    sources.Table{Services: make([]sources.Service, len(parts))},
		sections: make(map[string]section, len(parts)),
	}
	for to, from := range order {
		if to > 0 && compareNames(&services[order[to-1]], &services[from]) == 0 {
			return reading{}, false
		}
		now.table.Services[to] = services[from]
		sections[from].service = to
	}
	for i, p := range parts {
		now.sections[p.Text] = sections[i]
		for _, w := range sections[i].warnings {
			w.Origin.Line += p.Line - 1
			now.warnings = append(now.warnings, w)
		}
	}
	return now, true
}

func compareNames(a, b *sources.Service) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
