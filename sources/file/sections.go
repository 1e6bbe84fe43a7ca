package file

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// reading is the result of reading a file. The next reading takes over each service whose section is unchanged.
type reading struct {
	text     fields.Digest
	table    sources.Table
	warnings []sources.Problem

	doc      *fields.Document // without its text; nil with any problem, and then nothing is taken over
	sections []section        // of doc
	rest     rest
}

// rest is the result of reading what is not of a service.
type rest struct {
	named    namedChecks
	warnings []sources.Problem // with lines of the rest's own text
}

// section is the result of reading one service's text.
type section struct {
	service  int32             // its index in the reading's table
	line     int32             // where the service stands, in the section's own text
	check    string            // the named health check that it has, or ""
	warnings []sources.Problem // with lines of the section's own text
}

// decodeAfter is Decode with the help of the last reading of the same file.
func decodeAfter(before reading, name string, data []byte) (now reading, problems []sources.Problem) {
	d := &decoder{origin: sources.Origin{Source: sources.Files, File: name}, before: before.table}
	if m, long := fields.TooLong(data); long { // before a copy is made
		d.mistakes([]fields.Mistake{m})
		return reading{}, d.problems
	}
	now = d.read(before, fields.Cut(data, servicesKey, before.doc))
	now.text = fields.DigestOf(data)
	return now, few(d.problems)
}

// servicesKey is the table that has a section for each service.
const servicesKey = "services"

// read reads a document. It stops after many problems.
func (d *decoder) read(before reading, doc *fields.Document) (now reading) {
	d.mistakes(doc.Mistakes)
	ok := false
	if now.rest, now.table, ok = d.readRest(before, doc); !ok {
		return reading{}
	}
	now.warnings = inDocument(nil, now.rest.warnings, &doc.Rest)
	if len(doc.Sections) > 0 {
		now.sections = make([]section, len(doc.Sections))
		services := make([]sources.Service, 0, len(doc.Sections))
		for i := 0; i < len(doc.Sections) && !d.full(); i++ {
			at := &doc.Sections[i]
			var s sources.Service
			if s, now.sections[i], ok = d.section(before, now.rest, doc, at); ok {
				s.Origin.Line = at.Line(int(now.sections[i].line))
				services = append(services, s)
			}
			now.warnings = inDocument(now.warnings, now.sections[i].warnings, at)
		}
		now.table.Services = sources.ServicesOf(d.sorted(services, now.sections, doc.Mistakes)...)
	}
	if doc.Forget(); len(d.problems) == 0 {
		now.doc = doc
	}
	return now
}

// section reads a section, or takes its service over. It returns false if the service has a problem.
func (d *decoder) section(
	before reading, now rest, doc *fields.Document, at *fields.Section,
) (sources.Service, section, bool) {
	if at.Same >= 0 {
		was := before.sections[at.Same]
		if before.rest.named[was.check] == now.named[was.check] {
			s := *before.table.Services.At(int(was.service))
			d.took(&s)
			return s, was, true
		}
	}
	return d.readSection(doc, at)
}

// mistakes refuses what is wrong with the document as TOML.
func (d *decoder) mistakes(all []fields.Mistake) {
	for _, m := range all {
		if m.Key == "" || !d.others || slices.Contains(documentFields.Names(), m.Top) {
			p := sources.Problem{Origin: d.origin, Message: m.Error()}
			p.Origin.Line = m.Line
			d.problems = append(d.problems, p)
		}
	}
}

// inDocument appends the warnings of a section, with lines of the document.
func inDocument(all, own []sources.Problem, at *fields.Section) []sources.Problem {
	for _, w := range own {
		w.Origin.Line = at.Line(w.Origin.Line)
		all = append(all, w)
	}
	return all
}

// readRest reads what is not of a service, or takes it over. The table has the services of a document that is not cut.
func (d *decoder) readRest(before reading, doc *fields.Document) (now rest, t sources.Table, ok bool) {
	if before.doc != nil && doc.SameRest(before.doc) && len(doc.Sections) > 0 {
		d.named = before.rest.named
		return before.rest, t, true
	}
	d.at = &doc.Rest
	root, mistakes, ok := doc.ParseRest()
	d.mistakes(mistakes)
	if !ok {
		return now, t, false
	}
	into := &document{d, &t}
	if !d.others {
		table(d, root, documentFields, into)
	}
	for i := 0; i < len(documentFields) && d.others; i++ {
		if n, ok := root.Under(documentFields[i].Name); ok {
			if err := documentFields[i].Set(into, n); err != nil {
				d.refuseValue(n, err)
			}
		}
	}
	return rest{d.named, d.warnings}, t, true
}

// readSection reads a service. It returns false if it has a problem other than duplicate keys.
func (d *decoder) readSection(doc *fields.Document, at *fields.Section) (sources.Service, section, bool) {
	d.at, d.warnings = at, nil
	n, mistakes, ok := doc.Parse(at)
	d.mistakes(mistakes)
	if !ok {
		return sources.Service{}, section{}, false
	}
	s, ok := d.readService(n)
	d.reading = false
	return s, section{line: int32(n.Line()), check: d.draft.namedCheck, warnings: d.warnings}, ok
}

// sorted sorts the services, which are in order of the document, and tells the sections where theirs are. It refuses
// the second one of a name, unless the document says that already.
func (d *decoder) sorted(services []sources.Service, sections []section, said []fields.Mistake) []sources.Service {
	order := make([]int32, len(services))
	ascending := true // as in most files
	for i := range order {
		order[i], sections[i].service = int32(i), int32(i)
		ascending = ascending && (i == 0 || sources.CompareNames(&services[i-1], &services[i]) < 0)
	}
	if ascending {
		return services
	}
	slices.SortFunc(order, func(i, j int32) int {
		a, b := &services[i], &services[j]
		return cmp.Or(sources.CompareNames(a, b), cmp.Compare(a.Origin.Line, b.Origin.Line))
	})
	sorted := make([]sources.Service, 0, len(order))
	for _, from := range order {
		s := &services[from]
		if n := len(sorted); n > 0 && sources.CompareNames(&sorted[n-1], s) == 0 {
			d.twice(s, sorted[n-1].Origin.Line, said)
			continue
		}
		sections[from].service = int32(len(sorted))
		sorted = append(sorted, *s)
	}
	return sorted
}

func (d *decoder) twice(s *sources.Service, first int, said []fields.Mistake) {
	if slices.ContainsFunc(said, func(m fields.Mistake) bool { return m.Line == s.Origin.Line }) {
		return
	}
	message := fmt.Sprintf("defined twice, first at line %d", first)
	d.problems = append(d.problems, sources.Problem{Origin: s.Origin, Service: s.FullName(), Message: message})
}
