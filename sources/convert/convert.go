package convert

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
	"github.com/svcproxy/svcproxy/sources/redact"
)

// Format is what a configuration is written for.
type Format string

// The formats.
const (
	IPVSAdm    Format = "ipvsadm"    // ipvsadm-save -n, ipvsadm -Sn
	Keepalived Format = "keepalived" // keepalived.conf
	LDirectord Format = "ldirectord" // ldirectord.cf
	HAProxy    Format = "haproxy"    // haproxy.cfg
	Kubernetes Format = "kubernetes" // Services and EndpointSlices in YAML or JSON
)

// Formats lists the formats.
func Formats() []Format { return []Format{IPVSAdm, Keepalived, LDirectord, HAProxy, Kubernetes} }

// Result is what a configuration comes to.
type Result struct {
	Services []sources.Service // Origin is where the first part of each is configured
	Notes    []Note            // the worst first, then in the order of the configuration
	Words    file.Words        // of Document
	VRRP     *VRRP             // keepalived also moves addresses; nil = it does not, or it is another format
	// NoProtocol are virtual servers for which keepalived.conf has no protocol. The services take TCP; keepalived takes
	// UDP since 2017.
	NoProtocol []netip.AddrPort
	Unread     error // a part of keepalived.conf that keepalived reads and import does not, or nil
}

// Note is about a part of a configuration that has no counterpart.
type Note struct {
	Origin  sources.Origin
	Service string // the service's full name; "" if it is about none, or about one that is not imported
	Message string
	Danger  Danger
}

// message returns the text of a note. What comes from the configuration is in the arguments: secrets are left
// out of these.
func message(format string, args ...any) string {
	for i, a := range args {
		switch a := a.(type) {
		case string:
			args[i] = redact.Text(a)
		case error:
			args[i] = redact.Text(a.Error())
		}
	}
	return fmt.Sprintf(format, args...)
}

// String is "file:line: message", on one line.
func (n Note) String() string { return n.Origin.String() + ": " + n.Text() }

// Text is the message on one line.
func (n Note) Text() string { return printable(n.Message) }

// Open returns the files that a pattern names, for configurations that include others. A
// relative pattern is relative to the file that includes it.
type Open func(pattern, from string) ([]File, error)

// File is the text of a configuration and its name, for messages.
type File struct {
	Name     string
	Data     []byte
	Dir      string // the absolute directory, which ${_PWD} is for keepalived; "" = that of Name
	Err      error  // of a file that is included: why it cannot be read
	Proxy    string // whose Kubernetes objects are read: sources.apiserver.proxyName
	Instance string // what ${_INSTANCE} is for keepalived; "" if that is not known
}

// Read reads a configuration. The error names a file and line that cannot be understood at
// all. open may be nil: then a file that is included is a Note. Neither the notes nor the services
// have a secret of the configuration.
func Read(format Format, f File, open Open) (Result, error) {
	r, err := read(format, f, open)
	if err != nil {
		return Result{}, errors.New(redact.Text(err.Error()))
	}
	return r, nil
}

func read(format Format, f File, open Open) (Result, error) {
	switch format {
	case IPVSAdm:
		return readIPVSAdm(f)
	case Keepalived:
		return readKeepalived(f, open)
	case LDirectord:
		return readLDirectord(f)
	case HAProxy:
		return readHAProxy(f)
	case Kubernetes:
		return readKubernetes(f)
	}
	return Result{}, fmt.Errorf("format %q is not one of %v", format, Formats())
}

// Detect returns the format of a configuration by its first words that tell, "" if none does.
func Detect(data []byte) Format {
	for line := range bytes.Lines(data) {
		text := string(line)
		f := strings.Fields(text)
		if len(f) == 0 || strings.HasPrefix(f[0], "#") || strings.HasPrefix(f[0], "!") {
			continue
		}
		switch format := detectLine(text, f); {
		case format == Kubernetes && !bytes.Contains(data, []byte("apiVersion")): // other JSON or YAML
		case format != "":
			return format
		case strings.HasPrefix(f[0], "["): // TOML
			return ""
		}
	}
	return ""
}

func detectLine(line string, f []string) Format {
	first := f[0]
	switch {
	case slices.Contains([]string{"-A", "-a", "-C", "--add-service", "--add-server", "--clear", "ipvsadm"},
		strings.TrimPrefix(first, "/sbin/")):
		return IPVSAdm
	case slices.Contains([]string{"global_defs", "virtual_server", "virtual_server_group", "vrrp_instance",
		"vrrp_sync_group", "vrrp_script"}, strings.TrimSuffix(first, "{")):
		return Keepalived
	case len(f) == 2 && isInclude(first) || isDefinition(line) || strings.HasPrefix(first, "~SEQ"):
		return Keepalived
	case slices.Contains([]string{"global", "defaults", "listen", "frontend", "backend"}, first) &&
		!strings.Contains(line, "="):
		return HAProxy
	case strings.HasPrefix(first, "apiVersion:") || strings.HasPrefix(first, "kind:") || strings.HasPrefix(first, "{"):
		return Kubernetes
	case strings.Contains(line, "="):
		key, _, _ := strings.Cut(line, "=")
		if slices.Contains(ldirectordKeys, strings.TrimSpace(key)) {
			return LDirectord
		}
	}
	return ""
}

// Document returns the services as a services file. What is not imported is a comment at its
// place: above its service, or at the top.
func (r Result) Document() string {
	var b strings.Builder
	comment := func(n Note) { fmt.Fprintf(&b, "# not imported (%s): %s\n", n.Origin, printable(n.Message)) }
	notes := make(map[string][]Note, len(r.Services)) // by service
	for _, s := range r.Services {
		notes[s.FullName()] = nil
	}
	for _, n := range r.Notes {
		if of, known := notes[n.Service]; known {
			notes[n.Service] = append(of, n)
		} else {
			comment(n)
		}
	}
	for i := range r.Services {
		s := &r.Services[i]
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "# from %s\n", s.Origin)
		for _, n := range notes[s.FullName()] {
			comment(n)
		}
		b.WriteString(file.Encode(s, r.Words))
	}
	return b.String()
}

// printable returns a text for a comment of TOML, which is one line of UTF-8 without control characters.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) && r != utf8.RuneError {
			return r
		}
		return '?'
	}, text)
}
