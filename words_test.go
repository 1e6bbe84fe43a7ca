package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/commands"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/sources/file"
)

// parserWords are words of Go's own parsers, which tell a person nothing.
var parserWords = []string{"strconv.", "invalid syntax", "value out of range", "time: ", "netip.", "ParseAddr", "ParsePrefix", "json:", "cannot unmarshal", "interface {}", "reflect."}

// wrongValues are as TOML. As the values of flags they have no quotes.
var wrongValues = []string{`""`, `"x y"`, `"-1"`, `"1e99"`, `"99999999999999999999999"`, `"10.0.0.1/99"`, `"12:34:56:"`, "-1", "99999999999999", "1.5", "true", "[]", "{}", `[1, "x"]`, "{ x = 1 }"}

func wantPlain(t *testing.T, about string, said any) {
	t.Helper()
	text := fmt.Sprint(said)
	for _, word := range parserWords {
		if strings.Contains(text, word) {
			t.Errorf("%s: %s", about, text)
			return
		}
	}
}

// TestErrorsArePlain gives wrong values to every flag of every command and every key of both files.
func TestErrorsArePlain(t *testing.T) {
	p := program(&commands.Env{})
	flags, keys := 0, 0
	common := p.FlagSet(cli.Command{})
	for i := range p.Commands {
		p.Commands[i].Run = func(context.Context, []string) error { return nil }
		p.FlagSet(p.Commands[i]).VisitAll(func(f *pflag.Flag) {
			if i > 0 && common.Lookup(f.Name) != nil {
				return
			}
			for _, v := range wrongValues {
				flags++
				argv := []string{p.Commands[i].Name, "--" + f.Name + "=" + strings.Trim(v, `"`)}
				if err := p.Run(t.Context(), argv, io.Discard); err != nil {
					wantPlain(t, strings.Join(argv, " "), err)
				}
			}
		})
	}
	common.VisitAll(func(f *pflag.Flag) { // their values are judged together with the file
		for _, v := range wrongValues {
			fs := pflag.NewFlagSet("", pflag.ContinueOnError)
			set := config.AddFlags(fs)
			if fs.Parse([]string{"--" + f.Name + "=" + strings.Trim(v, `"`)}) == nil {
				_, err := config.Parse("svcproxy.toml", nil, set)
				wantPlain(t, "--"+f.Name+"="+v, err)
			}
		}
	})
	none := config.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	for _, k := range config.Keys() {
		for _, v := range wrongValues {
			keys++
			text := placed(k.Path, v) + "\n"
			_, err := config.Parse("svcproxy.toml", []byte(text), none)
			wantPlain(t, text, err)
		}
	}
	for _, k := range file.Keys() {
		for _, v := range wrongValues {
			keys++
			text := placed(k.Path, v) + "\n"
			_, _, problems := file.Decode("services.toml", []byte(text))
			wantPlain(t, text, problems)
		}
	}
	if flags < 1000 || keys < 1000 {
		t.Errorf("only %d values of flags and %d of keys", flags, keys)
	}
}

// placed is a document with one value at a path: a.b[].c = 1 is a = { b = [{ c = 1 }] }.
func placed(path, value string) string {
	first, rest, nested := strings.Cut(path, ".")
	name, list := strings.CutSuffix(first, "[]")
	if nested {
		value = "{ " + placed(rest, value) + " }"
	}
	if list {
		value = "[" + value + "]"
	}
	return name + " = " + value
}
