package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// Flags are the flags of the command line that concern the configuration.
type Flags struct {
	File    string // --config
	WriteTo string // --write-config-to

	given  []setting
	master string // --master

	old                                       []*oldFlag
	healthzPort, metricsPort, cleanupIPTables oldFlag // in old, too
}

// setting is one flag as given.
type setting struct {
	field *field
	text  string
}

// AddFlags defines --config, --write-config-to and every flag that kube-proxy has
// or had, but for --cleanup, --version and --help, which belong to the command.
// Decode checks the values, together with the file.
func AddFlags(fs *pflag.FlagSet) *Flags {
	flags := &Flags{}
	fs.StringVar(&flags.File, "config", "", "the configuration `FILE` (default "+DefaultFile+", if it is there)")
	fs.StringVar(&flags.WriteTo, "write-config-to", "", "write the default configuration to `FILE` and exit")
	fs.StringVar(&flags.master, "master", "", "the API server's `URL`, in the place of the one in kubeconfig")
	flags.addOld(fs)
	c := Default()
	for i := range allFields {
		f := &allFields[i]
		if f.flag == "" {
			continue
		}
		short := ""
		if len(f.flag) == 1 {
			short = f.flag
		}
		pf := fs.VarPF(&flagValue{flags, f, strings.Trim(f.toml(&c), `"[]{}`)}, f.flag, short, f.comment)
		if f.Kind == fields.KindBoolean {
			pf.NoOptDefVal = "true"
		}
	}
	return flags
}

// flagValue is a pflag.Value that records its text. A list that is given twice is the sum of both, as in kube-proxy.
// Of other values the last one counts.
type flagValue struct {
	flags     *Flags
	field     *field
	byDefault string
}

func (v *flagValue) String() string { return v.byDefault }

func (v *flagValue) Type() string {
	switch v.field.Kind {
	case fields.KindBoolean:
		return "bool"
	case fields.KindInteger:
		return "int"
	case fields.KindNumber:
		return "float"
	case fields.KindStrings:
		return "strings"
	case fields.KindBooleans:
		return "A=true|false,..."
	}
	return "string"
}

// Words are the values that completion offers; nil if there are others.
func (v *flagValue) Words() []string {
	switch v.field.key {
	case "ipvs.scheduler":
		return sources.Schedulers()
	case "mode":
		return modes.Words[1:] // without ""
	}
	return v.field.Words
}

func (v *flagValue) Set(s string) error {
	adds := v.field.Kind == fields.KindStrings || v.field.Kind == fields.KindBooleans
	for i := range v.flags.given {
		if g := &v.flags.given[i]; g.field == v.field {
			if adds && g.text != "" && s != "" {
				s = g.text + "," + s
			}
			g.text = s
			return nil
		}
	}
	v.flags.given = append(v.flags.given, setting{v.field, s})
	return nil
}

// flags sets the fields whose flags are given.
func (d *decoder) flags(flags *Flags) {
	if flags == nil {
		return
	}
	for _, g := range flags.given {
		name := "--" + g.field.flag
		d.origins[g.field.key] = origin{flag: name}
		v, err := fromText(g.field.Kind, g.text)
		if err == nil {
			err = g.field.set(&d.config, v)
		}
		if err != nil {
			d.refused[g.field.key] = true
			d.problems = append(d.problems, sources.Problem{Message: fmt.Sprintf("%s %v", name, err)})
		}
	}
	d.config.ClientConnection.Master = flags.master
	d.oldFlags(flags)
}

// fromText converts a flag's text to the type that the TOML library would return.
func fromText(kind fields.Kind, s string) (any, error) {
	switch kind {
	case fields.KindBoolean:
		b, err := strconv.ParseBool(s)
		if err != nil {
			return nil, fmt.Errorf("%q must be true or false", s)
		}
		return b, nil
	case fields.KindInteger:
		i, err := strconv.ParseInt(s, 0, 64)
		if err != nil {
			return nil, fmt.Errorf("%q must be an integer", s)
		}
		return i, nil
	case fields.KindNumber:
		n, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return nil, fmt.Errorf("%q must be a number", s)
		}
		return n, nil
	case fields.KindStrings:
		items := []any{}
		for item := range strings.SplitSeq(s, ",") {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
		return items, nil
	case fields.KindBooleans:
		return gatesFromText(s)
	}
	return s, nil
}

func gatesFromText(s string) (any, error) {
	t := map[string]any{}
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, on, _ := strings.Cut(item, "=")
		b, err := strconv.ParseBool(on)
		if err != nil || name == "" {
			return nil, fmt.Errorf("%q must be NAME=true or NAME=false", item)
		}
		t[name] = b
	}
	return t, nil
}
