package commands

import (
	"bytes"
	"fmt"
	"io"
	"strings"

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
		if looks := looksLike(data, stdin); looks != "" {
			err.Hint = "standard input looks like " + looks
		}
		return sources.Table{}, err
	}
	return table, nil
}

// foreign names the first file that looks like another load balancer's, or is no TOML, and what to do. It is "" if none
// does.
func foreign(names []string) string {
	for _, name := range names {
		content, err := file.Read(name)
		if err != nil {
			continue
		}
		if looks := looksLike(content.Data, name); looks != "" {
			return name + " looks like " + looks
		}
	}
	return ""
}

// looksLike says what a text is that is not a services file, with what to do about it: the command that
// imports it from a name, or where the form of services files is written down. It is "" if the text does not
// tell.
func looksLike(data []byte, name string) string {
	if format := convert.Detect(data); format != "" {
		return fmt.Sprintf("a file of %s: svcproxy import %s", format, name)
	}
	if other := notation(data); other != "" {
		return other + ": services files are TOML, see services.toml(5)"
	}
	return ""
}

// notation is JSON or YAML if the first line that is not a comment has its form, else "".
func notation(data []byte) string {
	for line := range bytes.Lines(data) {
		switch text := string(bytes.TrimSpace(line)); {
		case text == "" || text[0] == '#':
		case text[0] == '{':
			return "JSON"
		case text == "---" || strings.HasSuffix(text, ":") || strings.HasPrefix(text, "- "):
			return "YAML"
		default:
			return ""
		}
	}
	return ""
}
