package file

import (
	"cmp"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// reading is the result of reading a file. The next reading takes over each service whose section is unchanged.
// A section is the text from the service's header up to the header of the next service.
type reading struct {
	text     string
	table    sources.Table
	warnings []sources.Problem
	sections map[string]section // by their text; nil when the file was not read by sections
}

// section is the result of reading one service's text.
type section struct {
	service  int               // its index in the reading's table
	values   int               // how many keys and array elements it has
	warnings []sources.Problem // the header is line 1
}

// decodeAfter is Decode with the help of the last reading of the same file. A file that does not consist of
// sections alone, or that has a problem outside of them, is read as a whole.
func decodeAfter(before reading, name string, data []byte) (now reading, problems []sources.Problem) {
	if m, long := fields.TooLong(data); long { // before a copy is made
		return now, []sources.Problem{{Origin: sources.Origin{Source: "file", File: name, Line: m.Line}, Message: m.Message}}
	}
	text := string(data)
	if now, problems, ok := bySections(before, name, text); ok {
		return now, problems
	}
	now.text = text
	now.table, now.warnings, problems = decodeWhole(before.table, name, data)
	return now, problems
}

// bySections reads a file section by section. It returns false if the file does not consist of sections, or has a
// problem that is not inside one section. It stops after the first problems, because reading the whole file takes
// up to 100 times the memory of its text.
func bySections(before reading, name, text string) (now reading, problems []sources.Problem, ok bool) {
	parts, ok := fields.Cut(text, "services")
	if !ok {
		return reading{}, nil, false
	}
	d := &decoder{origin: sources.Origin{Source: "file", File: name}, before: before.table}
	r := fields.NewReader("services")
	services, sections, values := make([]sources.Service, len(parts)), make([]section, len(parts)), 0
	bad := map[[2]string]bool{} // services with problems
	for i := 0; i < len(parts); i++ {
		p := parts[i]
		if s, read := before.sections[p.Text]; read {
			services[i], sections[i] = before.table.Services[s.service], s
		} else if services[i], sections[i], ok = d.readSection(r, p); !ok {
			s, doubts, more := decodeAlone(name, p)
			if len(more) == 0 || fields.MaxValues < atMost(text) {
				return reading{}, nil, false
			}
			services[i], sections[i] = s, section{warnings: doubts}
			bad[[2]string{s.Namespace, s.Name}] = s.Type == ""
			if problems = append(problems, more...); len(problems) > maxProblems {
				parts, services, sections = parts[:i+1], services[:i+1], sections[:i+1]
			}
		}
		services[i].Origin.Line = p.Line
		if values += sections[i].values; values > fields.MaxValues {
			return reading{}, nil, false
		}
	}
	now, ok = inOrder(parts, services, sections)
	now.text = text
	if len(bad) > 0 {
		now.sections = nil
		now.table.Services = slices.DeleteFunc(now.table.Services, func(s sources.Service) bool { return bad[[2]string{s.Namespace, s.Name}] })
	}
	return now, few(problems), ok
}

// decodeAlone reads a section with problems as a document of its own, with the lines of the file. It returns no
// problems if the section is not TOML, so that its end is not known, or is not one service. A service that cannot
// be read has only its name.
func decodeAlone(name string, p fields.Part) (s sources.Service, warnings, problems []sources.Problem) {
	d := &decoder{origin: sources.Origin{Source: "file", File: name}}
	root, ok := d.parse([]byte(strings.Repeat("\n", p.Line-1)+p.Text), func(string) bool { return true })
	if !ok {
		return sources.Service{}, nil, nil
	}
	services, _ := root.V.(map[string]any)["services"].(map[string]any)
	if len(services) != 1 {
		return sources.Service{}, nil, nil
	}
	for key := range services {
		s = sources.Service{Name: key, Namespace: sources.DefaultNamespace}
		if namespace, name, ok := strings.Cut(key, "/"); ok {
			s.Namespace, s.Name = namespace, name
		}
	}
	var t sources.Table
	if table(d, root, documentFields, &document{d, &t}); len(t.Services) == 1 {
		s = t.Services[0] // its only problem is a duplicate key
	}
	for i := range d.warnings {
		d.warnings[i].Origin.Line -= p.Line - 1
	}
	return s, d.warnings, d.problems
}

// atMost is an upper bound of the keys and elements in a text.
func atMost(text string) int {
	return strings.Count(text, "=") + strings.Count(text, ",") + strings.Count(text, "[") + strings.Count(text, "{")
}

// readSection reads a new section. It returns false if the section has any problem.
func (d *decoder) readSection(r *fields.Reader, p fields.Part) (sources.Service, section, bool) {
	name, v, at, values, ok := r.Parse(p)
	if !ok {
		return sources.Service{}, section{}, false
	}
	d.warnings = nil
	s, ok := d.readService(node{Key: name, At: at, V: v})
	return s, section{values: values, warnings: d.warnings}, ok
}

// inOrder makes a reading of sections, which come in the order of the file. It returns false if two of them are of
// one service.
func inOrder(parts []fields.Part, services []sources.Service, sections []section) (reading, bool) {
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
