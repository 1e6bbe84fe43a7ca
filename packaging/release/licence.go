package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A module is one that svcproxy is linked with, and what its authors ask of those who pass it on.
type module struct {
	path    string
	names   []string // of its licences, as SPDX has them
	terms   string   // their texts, without the holders of the copyright
	holders []string
	notice  string // goes with each copy
}

const (
	self     = "github.com/svcproxy/svcproxy"
	standard = "stdlib" // Go's own packages, as databases of vulnerabilities call them
)

// linked returns the modules with packages in svcproxy on any of the architectures, sorted by path.
func linked() ([]module, error) {
	dirs := map[string]map[string]bool{} // of the packages of each module, and those above them
	for _, arch := range architectures {
		cmd := goCommand("list", "-deps", "-json=Dir,Standard,Module,Root", ".")
		cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
		var out bytes.Buffer
		if err := output(cmd, &out); err != nil {
			return nil, err
		}
		for d := json.NewDecoder(&out); ; {
			var p struct {
				Dir, Root string
				Standard  bool
				Module    struct{ Path, Dir string }
			}
			if err := d.Decode(&p); err == io.EOF {
				break
			} else if err != nil {
				return nil, err
			}
			switch path, root := p.Module.Path, p.Module.Dir; {
			case p.Standard && dirs[standard] == nil:
				dirs[standard] = map[string]bool{p.Root: true} // one licence for all of it
			case p.Standard || path == self:
			default:
				if dirs[path] == nil {
					dirs[path] = map[string]bool{root: true}
				}
				for dir := p.Dir; len(dir) > len(root); dir = filepath.Dir(dir) {
					dirs[path][dir] = true
				}
			}
		}
	}
	var modules []module
	var errs []error
	for _, path := range slices.Sorted(maps.Keys(dirs)) {
		m, err := readLicence(path, slices.Sorted(maps.Keys(dirs[path])))
		modules, errs = append(modules, m), append(errs, err)
	}
	return modules, errors.Join(errs...)
}

var (
	legal  = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)([.-].*)?$`)
	holder = regexp.MustCompile(`(?im)^\W*copyright (?:(?:\(c\)|©) *(\S.*?)|(\d.*?))` +
		`(?:[. ]* all rights reserved\.?)?[\s#]*$\n?`)
	header = regexp.MustCompile(`(?im)copyright (?:\(c\) )?[\d ,-]+(\w.*?)(?:[. ]* all rights reserved\.?)?$`)
	// apache is the text that is beside packaging/copyright, as a whole.
	apache = regexp.MustCompile(`(?is)[^\n]*apache license\s+version 2\.0, january 2004.*?end of terms and conditions` +
		`(.*?\{name of copyright owner\}|.*?\[name of copyright owner\])?(.*?limitations under the license\.)?`)
	blank = regexp.MustCompile(`\n\s*\n`)
)

// readLicence reads the legal files in the folders of a module, of which the first is its root.
func readLicence(path string, dirs []string) (module, error) {
	m := module{path: path}
	for _, dir := range dirs {
		files, err := os.ReadDir(dir)
		if err != nil {
			return m, err
		}
		for _, f := range files {
			if f.IsDir() || !legal.MatchString(f.Name()) {
				continue
			}
			content, err := os.ReadFile(filepath.Join(dir, f.Name()))
			if err != nil {
				return m, err
			}
			m.add(f.Name(), string(content))
		}
	}
	if len(m.names) == 0 || slices.Contains(m.names, "") {
		return m, fmt.Errorf("%s: no licence, or one that packaging/release does not know: %s", path, dirs[0])
	}
	if len(m.holders) == 0 { // Kubernetes names itself in its sources alone
		m.holders = holdersInSources(dirs)
	}
	if len(m.holders) == 0 { // a few modules name nobody
		m.holders = []string{"the authors of " + path}
	}
	slices.Sort(m.names)
	m.names = slices.Compact(m.names)
	return m, nil
}

// add adds what a legal file says.
func (m *module) add(file, text string) {
	for _, found := range holder.FindAllStringSubmatch(text, -1) {
		if name := found[1] + found[2]; !slices.Contains(m.holders, name) {
			m.holders = append(m.holders, name)
		}
	}
	if strings.HasPrefix(strings.ToLower(file), "notice") {
		m.notice += text
		return
	}
	m.names = append(m.names, identify(text)...)
	text = apache.ReplaceAllString(text, inLicense)
	m.terms += strings.TrimSpace(blank.ReplaceAllString(holder.ReplaceAllString(text, ""), "\n\n")) + "\n"
}

// inLicense stands for the text of the Apache License.
const inLicense = `The Apache License, Version 2.0, is in /usr/share/common-licenses/Apache-2.0 on
Debian, and in LICENSE beside this file elsewhere.
`

// identify names the licences in a text. One that it does not know is "".
func identify(text string) (names []string) {
	words := strings.ToLower(strings.Join(strings.Fields(text), " "))
	for _, l := range []struct{ name, phrase string }{
		{"Apache-2.0", "apache license version 2.0, january 2004"},
		{"Apache-2.0", "licensed under the apache license, version 2.0"},
		{"ISC", "permission to use, copy, modify, and/or distribute this software for any purpose"},
		{"ISC", "permission to use, copy, modify, and distribute this software for any purpose"},
		{"MIT", "permission is hereby granted, free of charge, to any person obtaining a copy"},
	} {
		if strings.Contains(words, l.phrase) {
			names = append(names, l.name)
		}
	}
	if strings.Contains(words, "redistribution and use in source and binary forms") {
		name := "BSD-2-Clause"
		if strings.Contains(words, "to endorse or promote products") {
			name = "BSD-3-Clause"
		}
		names = append(names, name)
	}
	if len(names) == 0 || strings.Contains(words, "general public license") {
		return []string{""}
	}
	return names
}

// holdersInSources returns those named in the headers of the Go files in these folders.
func holdersInSources(dirs []string) (holders []string) {
	for _, dir := range dirs {
		files, _ := filepath.Glob(filepath.Join(dir, "*.go"))
		for _, file := range files {
			text, _ := os.ReadFile(file)
			text, _, _ = bytes.Cut(text, []byte("\npackage "))
			if found := header.FindSubmatch(text); found != nil {
				holders = append(holders, string(found[1]))
			}
		}
	}
	slices.Sort(holders)
	return slices.Compact(holders)
}

// expression joins the names of licences as SPDX does.
func expression(names []string) string {
	return strings.Join(names, " AND ")
}

// all returns the licences of svcproxy with all that is linked into it, as one expression.
func all(modules []module) string {
	names := []string{"Apache-2.0"}
	for _, m := range modules {
		names = append(names, m.names...)
	}
	slices.Sort(names)
	return expression(slices.Compact(names))
}

// copyright returns Debian's machine-readable file. Modules with the same terms are one paragraph.
func copyright(modules []module) string {
	var b strings.Builder
	b.WriteString(`Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: svcproxy
Source: https://github.com/svcproxy/svcproxy
Comment: Paragraphs after the first are of Go modules that are linked into svcproxy.
 packaging/release writes this file.

Files: *
Copyright: 2026 the svcproxy authors
License: Apache-2.0
` + indented(inLicense))
	var order []string
	groups := map[string][]module{}
	for _, m := range modules {
		key := strings.Join(strings.Fields(m.terms), " ") + "\n" + m.notice
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], m)
	}
	for _, key := range order {
		var paths, holders []string
		for _, m := range groups[key] {
			paths, holders = append(paths, m.path+"/*"), append(holders, m.holders...)
		}
		slices.Sort(holders)
		first := groups[key][0]
		fmt.Fprintf(&b, "\nFiles: %s\n", strings.Join(paths, "\n "))
		fmt.Fprintf(&b, "Copyright: %s\n", strings.Join(slices.Compact(holders), "\n "))
		fmt.Fprintf(&b, "License: %s\n%s", strings.Join(first.names, " and "), indented(first.terms))
		if first.notice != "" {
			fmt.Fprintf(&b, "Comment: These notices come with it:\n%s", indented(first.notice))
		}
	}
	return b.String()
}

// indented is a text as Debian's control files continue a field.
func indented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		if line == "" {
			line = "."
		}
		b.WriteString(" " + line + "\n")
	}
	return b.String()
}
