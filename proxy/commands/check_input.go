package commands

import (
	"fmt"
	"io"

	"github.com/svcproxy/svcproxy/proxy/cli"
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
		err := &cli.Error{Code: cli.Config, Err: &sources.RejectedError{Problems: problems}}
		if looks := looksLike(data); looks != "" {
			err.Hint = "standard input looks like " + looks + "-"
		}
		return sources.Table{}, err
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
		if looks := looksLike(data); looks != "" {
			return name + " looks like " + looks + name
		}
	}
	return ""
}

// looksLike returns the format of another load balancer that a text has, with the command that imports it but for its
// name; "" if it has none.
func looksLike(data []byte) string {
	if format := convert.Detect(data); format != "" {
		return fmt.Sprintf("a file of %s: svcproxy import ", format)
	}
	return ""
}
