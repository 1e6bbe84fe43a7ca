package commands

import (
	"fmt"
	"io"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/convert"
	"github.com/svcproxy/svcproxy/sources/file"
)

// stdin is the name of standard input among files.
const stdin = "-"

// standardInput reads a services file from there.
func (c *checkCommand) standardInput(facts sources.HostFacts) (sources.Table, error) {
	data, err := io.ReadAll(io.LimitReader(c.In, maxImport+1))
	switch {
	case err != nil:
		return sources.Table{}, err
	case len(data) > maxImport:
		return sources.Table{}, fmt.Errorf("standard input: longer than %d MiB", maxImport>>20)
	}
	table, warnings, problems := file.Decode("standard input", data)
	if len(problems) == 0 {
		problems = sources.Validate(table)
	}
	c.doubts(facts, table, warnings...)
	if len(problems) > 0 {
		return sources.Table{}, &sources.RejectedError{Problems: problems}
	}
	return table, nil
}

// foreign names the first file that looks like another load balancer's, and the command that imports it. It is
// "" if none does.
func foreign(names []string) string {
	for _, name := range names {
		data, err := file.Read(name)
		if err != nil {
			continue
		}
		if format := convert.Detect(data); format != "" {
			return fmt.Sprintf("%s looks like a file of %s: svcproxy import %s", name, format, name)
		}
	}
	return ""
}
