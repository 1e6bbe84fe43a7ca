package file

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// reading is the result of reading a file. The next reading takes over each service whose section is unchanged.
// A section is the text from the service's header up to the header of the next service.
type reading struct {
	text     digest
	head     digest // what is before the first section: the named health checks, or ""
	table    sources.Table
	warnings []sources.Problem
	sections map[digest]section // by their text; nil when the file was not read by sections
}

// section is the result of reading one service's text.
type section struct {
	service  int32             // its index in the reading's table
	values   int32             // how many keys and array elements it has
	warnings []sources.Problem // the header is line 1
}

// digest stands for a text, which need not stay in memory for a comparison: 128 bits that differ between processes, so
// that no text can be made to have another one's.
type digest struct {
	size int
	hash [2]uint64
}

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func digestOf(text string) digest {
	return digest{len(text), [2]uint64{maphash.String(seeds[0], text), maphash.String(seeds[1], text)}}
}

// is reports whether the digest is of these bytes.
func (d digest) is(data []byte) bool {
	return d.size == len(data) && d.hash == [2]uint64{maphash.Bytes(seeds[0], data), maphash.Bytes(seeds[1], data)}
}

// decodeAfter is Decode with the help of the last reading of the same file. A file that does not consist of
// sections alone, or that has a problem outside of them, is read as a whole.
func decodeAfter(before reading, name string, data []byte) (now reading, problems []sources.Problem) {
	if m, long := fields.TooLong(data); long { // before a copy is made
		return now, []sources.Problem{{Origin: sources.Origin{Source: sources.Files, File: name, Line: m.Line}, Message: m.Message}}
	}
	text := string(data)
	if now, problems, ok := bySections(before, name, text); ok {
		return now, problems
	}
	now.text = digestOf(text)
	now.table, now.warnings, problems = decodeWhole(before.table, name, data)
	return now, problems
}

// bySections reads a file section by section. It returns false if the file does not consist of sections, or has a
// problem that is not inside one section. It stops after the first problems, because reading the whole file takes
// up to 100 times the memory of its text.
func bySections(before reading, name, text string) (now reading, problems []sources.Problem, ok bool) {
	d := &decoder{origin: sources.Origin{Source: sources.Files, File: name}, before: before.table}
	head, ok := d.head(text)
	if !ok {
		return reading{}, nil, false
	}
	parts, ok := fields.Cut(text[len(head):], "services")
	if !ok {
		return reading{}, nil, false
	}
	if digestOf(head) != before.head {
		before.sections = nil // they may name other checks
	}
	r := fields.NewReader("services")
	services, sections, values := make([]sources.Service, len(parts)), make([]section, len(parts)), atMost(head)
	texts := make([]digest, len(parts))
	bad := map[[2]string]bool{} // services with problems
	for i := 0; i < len(parts); i++ {
		parts[i].Line += strings.Count(head, "\n")
		p := parts[i]
		texts[i] = digestOf(p.Text)
		size := d.size
		if s, read := before.sections[texts[i]]; read {
			services[i], sections[i] = *before.table.Services.At(int(s.service)), s
			d.took(&services[i])
		} else if services[i], sections[i], ok = d.readSection(r, p); !ok {
			if d.over {
				return reading{}, few(append(problems, d.tooLarge(p))), true
			}
			d.size = size
			s, doubts, more := d.alone(p)
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
		if values += int(sections[i].values); values > fields.MaxValues {
			return reading{}, nil, false
		}
	}
	now, ok = inOrder(parts, texts, services, sections)
	now.text, now.head = digestOf(text), digestOf(head)
	if len(bad) > 0 {
		now.sections = nil
		now.table.Services = sources.ServicesOf(slices.DeleteFunc(now.table.Services.Slice(), func(s sources.Service) bool { return bad[[2]string{s.Namespace, s.Name}] })...)
	}
	return now, few(problems), ok
}

// head returns what is before the first section, and reads it: "", or the tables of named health checks alone. It
// returns false if these have any problem.
func (d *decoder) head(text string) (string, bool) {
	end := strings.Index(text, "\n[services.") + 1
	head := text[:end]
	if !strings.Contains(head, "healthChecks") || strings.Contains(head, "\r") {
		return "", true // there are none, or Cut declines
	}
	tree, places, mistakes, ok := fields.Parse([]byte(head))
	checks, named := node{At: places, V: tree}.Under("healthChecks")
	if !ok || !named || len(tree) != 1 || len(mistakes) > 0 {
		return "", true
	}
	err := d.healthChecks(checks)
	return head, err == nil && len(d.problems) == 0
}

// alone reads a section with problems as a document of its own, with the lines of the file. It returns no
// problems if the section is not TOML, so that its end is not known, or is not one service. A service that cannot
// be read has only its name.
func (d *decoder) alone(p fields.Part) (s sources.Service, warnings, problems []sources.Problem) {
	own := &decoder{origin: d.origin, size: d.size, named: d.named, before: d.before}
	defer func() { d.size = own.size }()
	root, ok := own.parse([]byte(strings.Repeat("\n", p.Line-1)+p.Text), func(string) bool { return true })
	if !ok {
		return sources.Service{}, nil, nil
	}
	services, _ := root.Under("services")
	names := services.Keys()
	if len(names) != 1 {
		return sources.Service{}, nil, nil
	}
	s = sources.Service{Name: names[0], Namespace: sources.DefaultNamespace}
	if namespace, name, ok := strings.Cut(names[0], "/"); ok {
		s.Namespace, s.Name = namespace, name
	}
	var t sources.Table
	if table(own, root, documentFields, &document{own, &t}); t.Services.Len() == 1 {
		s = *t.Services.At(0) // its only problem is a duplicate key
	}
	for i := range own.warnings {
		own.warnings[i].Origin.Line -= p.Line - 1
	}
	return s, own.warnings, own.problems
}

// atMost is an upper bound of the keys and elements in a text.
func atMost(text string) int {
	return strings.Count(text, "=") + strings.Count(text, ",") + strings.Count(text, "[") + strings.Count(text, "{")
}

// readSection reads a new section. It returns false if the section has any problem.
func (d *decoder) readSection(r *fields.Reader, p fields.Part) (sources.Service, section, bool) {
	n, values, ok := r.Parse(p)
	if !ok {
		return sources.Service{}, section{}, false
	}
	d.warnings = nil
	s, ok := d.readService(n)
	return s, section{values: int32(values), warnings: d.warnings}, ok
}

// inOrder makes a reading of sections, which come in the order of the file. It returns false if two of them are of
// one service.
func inOrder(parts []fields.Part, texts []digest, services []sources.Service, sections []section) (reading, bool) {
	now := reading{sections: make(map[digest]section, len(parts))}
	order := make([]int32, len(parts))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(i, j int32) int { return compareNames(&services[i], &services[j]) })
	for to, from := range order {
		if to > 0 && compareNames(&services[order[to-1]], &services[from]) == 0 {
			return reading{}, false
		}
		sections[from].service = int32(to)
	}
	if !slices.IsSorted(order) {
		sorted := make([]sources.Service, len(parts))
		for to, from := range order {
			sorted[to] = services[from]
		}
		services = sorted
	}
	now.table.Services = sources.ServicesOf(services...)
	for i, p := range parts {
		now.sections[texts[i]] = sections[i]
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
