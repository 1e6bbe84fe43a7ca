package file

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// styles are the ways to write a file of services that styledFile knows. The first one is that of most files.
var styles = []string{
	"plain", "named check after a service", "CRLF", "blanks in headers", "a line [services]", "sub-tables", "dotted keys",
	"below [services]", "key by key", "multi-line strings",
}

// styledFile is n services of 5 endpoints, all in one style.
func styledFile(n int, style string) []byte {
	header, prefix, quote, head := "[services.NAME]\n", "", `"`, ""
	switch style {
	case "blanks in headers":
		header = "[ services.NAME ]\n"
	case "a line [services]":
		head = "[services]\n"
	case "dotted keys":
		header, prefix = "", "services.NAME."
	case "below [services]", "key by key":
		header, prefix, head = "", "NAME.", "[services]\n"
	case "multi-line strings":
		quote = `"""`
	case "sub-tables":
		header = "[services.NAME.healthCheck]\ntype = \"tcp\"\n" + header
	}
	var keys [3]strings.Builder // all of each key
	var b strings.Builder
	b.WriteString(head)
	for i := range n {
		named := func(text string) string { return strings.ReplaceAll(text, "NAME", fmt.Sprintf("s%05d", i)) }
		endpoints := ""
		for j := range 5 {
			endpoints += fmt.Sprintf("  \"10.%d.%d.%d\",\n", 128+j, i/250, 1+i%250)
		}
		b.WriteString(named(header))
		for k, value := range []string{
			fmt.Sprintf("clusterIP = %s10.96.%d.%d%[1]s\n", quote, i/250, 1+i%250),
			"ports = [{ port = 80, targetPort = 8080 }]\n",
			"endpoints = [\n" + endpoints + "]\n",
		} {
			if style == "key by key" {
				keys[k].WriteString(named(prefix) + value)
			} else {
				b.WriteString(named(prefix) + value)
			}
		}
		if style == "named check after a service" && i == 0 {
			b.WriteString("[healthChecks.x]\ntype = \"tcp\"\n")
		}
	}
	text := b.String() + keys[0].String() + keys[1].String() + keys[2].String()
	if style == "CRLF" {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	return []byte(text)
}

// changedFile is a file with another endpoint of the service in the middle.
func changedFile(data []byte, n int) []byte {
	i := n / 2
	return bytes.Replace(data, fmt.Appendf(nil, "\"10.130.%d.%d\"", i/250, 1+i%250), []byte(`"10.255.0.1"`), 1)
}

// TestNoCliff: a change of one service has that service read again, and no other, however the file is written. What
// it allocates besides grows with the text.
func TestNoCliff(t *testing.T) {
	const n = 1000
	var plain uint64
	for _, style := range styles {
		data := styledFile(n, style)
		changed := changedFile(data, n)
		before, problems := decodeAfter(reading{}, "f.toml", data)
		if len(problems) > 0 || before.table.Services.Len() != n {
			t.Fatalf("%s: %d services, %v", style, before.table.Services.Len(), problems)
		}
		var start, end runtime.MemStats
		runtime.ReadMemStats(&start)
		now, _ := decodeAfter(before, "f.toml", changed)
		runtime.ReadMemStats(&end)
		read := n - takenOver(before, now)
		took := end.TotalAlloc - start.TotalAlloc
		if style == "plain" {
			plain = took
		}
		t.Logf("%s: %d services read, %d bytes allocated", style, read, took)
		if read != 1 || took > plain*3/2 {
			t.Errorf("%s: %d services read, %d bytes allocated, and %d in a plain file", style, read, took, plain)
		}
	}
}

// BenchmarkStyles reads a file of 5,000 services after a change of one endpoint.
func BenchmarkStyles(b *testing.B) {
	const n = 5000
	for _, style := range styles {
		b.Run(style, func(b *testing.B) {
			data := styledFile(n, style)
			texts := [2][]byte{data, changedFile(data, n)}
			before, problems := decodeAfter(reading{}, "f.toml", data)
			if len(problems) > 0 {
				b.Fatal(problems)
			}
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for i := 1; b.Loop(); i++ {
				before, _ = decodeAfter(before, "f.toml", texts[i%2])
			}
		})
	}
}
