package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"
)

// part is a component of CycloneDX.
type part struct {
	Type     string              `json:"type"`
	Ref      string              `json:"bom-ref"`
	Name     string              `json:"name"`
	Version  string              `json:"version"`
	Hashes   []map[string]string `json:"hashes,omitempty"`
	Licences []map[string]string `json:"licenses"`
	URL      string              `json:"purl"`
}

// newPart names a Go module. Its URL keeps the case of its path, as Go and databases of vulnerabilities do.
func newPart(kind, path, version, licences string) part {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return part{Type: kind, Ref: url, Name: path, Version: version, URL: url,
		Licences: []map[string]string{{"expression": licences}}}
}

// billOfMaterials returns what the program in a tarball is made of, in JSON of CycloneDX 1.6. The program itself says
// it: Go writes the modules into it.
func billOfMaterials(tarball, version string, when time.Time, modules []module) ([]byte, error) {
	program, err := fromTarball(tarball, "svcproxy")
	if err != nil {
		return nil, err
	}
	built, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return nil, err
	}
	licences := map[string]string{}
	for _, m := range modules {
		licences[m.path] = expression(m.names)
	}
	sum := sha256.Sum256(program)
	whole := newPart("application", self, version, "Apache-2.0")
	whole.Hashes = []map[string]string{{"alg": "SHA-256", "content": fmt.Sprintf("%x", sum)}}
	parts := []part{newPart("library", standard, strings.TrimPrefix(built.GoVersion, "go"), licences[standard])}
	for _, m := range built.Deps {
		if licences[m.Path] == "" {
			return nil, fmt.Errorf("%s has module %s, whose licence is not known", tarball, m.Path)
		}
		parts = append(parts, newPart("library", m.Path, m.Version, licences[m.Path]))
	}
	refs := []string{}
	for _, p := range parts {
		refs = append(refs, p.Ref)
	}
	text, err := json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"serialNumber": "urn:uuid:" + uuid(sum),
		"metadata":     map[string]any{"timestamp": when.Format(time.RFC3339), "component": whole},
		"components":   parts,
		"dependencies": []any{map[string]any{"ref": whole.Ref, "dependsOn": refs}},
	}, "", "  ")
	return append(text, '\n'), err
}

// fromTarball returns the content of a file, which may be in any folder of a tarball.
func fromTarball(tarball, name string) ([]byte, error) {
	f, err := os.Open(tarball)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tarball, err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", tarball, name, err)
		}
		if path.Base(h.Name) == name && h.Typeflag == tar.TypeReg {
			return io.ReadAll(r)
		}
	}
}

// uuid makes a UUID of version 8, whose bits are ours, from a sum.
func uuid(sum [sha256.Size]byte) string {
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
