// Package report makes the archive that goes with a bug report: texts about a node, without
// its secrets.
//
// Gathering them is left to others. The archive has the same bytes for the same texts and time.
package report

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/sources/redact"
)

// File is one text of a report.
type File struct {
	Name  string // "status.txt"
	About string // what it has, in one line
	Text  string
}

// Report is what is written. Missing says what is not in it and why.
type Report struct {
	Name    string // of the folder in the archive
	Time    time.Time
	Files   []File
	Missing []string
}

// Add adds a file, unless it is empty.
func (r *Report) Add(name, about, text string) {
	if text == "" {
		return
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	r.Files = append(r.Files, File{name, about, text})
}

// Lacks notes that something is not in the report.
func (r *Report) Lacks(what string, why error) {
	r.Missing = append(r.Missing, fmt.Sprintf("%s: %v", what, why))
}

// Redact leaves the secrets out of all files.
func (r *Report) Redact(s *redact.Secrets) {
	for i := range r.Files {
		r.Files[i].Text = s.Redact(r.Files[i].Text)
	}
	for i := range r.Missing {
		r.Missing[i] = s.Redact(r.Missing[i])
	}
}

// Contents lists the files, one a line, and what is missing.
func (r *Report) Contents() string {
	var b strings.Builder
	files, width := r.sorted(), 0
	for _, f := range files {
		width = max(width, len(f.Name))
	}
	for _, f := range files {
		fmt.Fprintf(&b, "  %-*s  %8d bytes  %s\n", width, f.Name, len(f.Text), f.About)
	}
	for _, m := range r.Missing {
		fmt.Fprintf(&b, "  not in it: %s\n", m)
	}
	return b.String()
}

func (r *Report) sorted() []File {
	files := slices.Clone(r.Files)
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	return files
}

// Write writes the report as a compressed tar archive. The files are sorted by name, readable by
// their owner alone, and README is the first.
func (r *Report) Write(w io.Writer) error {
	compressed := gzip.NewWriter(w)
	archive := tar.NewWriter(compressed)
	readme := File{Name: "README", Text: "A report about a node with svcproxy, made at " +
		r.Time.UTC().Format(time.RFC3339) + ".\nSecrets are left out: " + redact.LeftOut + "\n\n" + r.Contents()}
	for _, f := range append([]File{readme}, r.sorted()...) {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: r.Name + "/" + f.Name, Mode: 0o600, Size: int64(len(f.Text)),
			ModTime: r.Time.UTC().Truncate(time.Second), Format: tar.FormatPAX,
		}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("writing %s: %w", f.Name, err)
		}
		if _, err := io.WriteString(archive, f.Text); err != nil {
			return fmt.Errorf("writing %s: %w", f.Name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	return compressed.Close()
}
