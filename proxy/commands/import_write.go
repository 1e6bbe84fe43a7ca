package commands

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/sources/convert"
)

// printNotes prints notes, the worst first. Lines of which the same is to be said are one.
func (c *importCommand) printNotes(notes []convert.Note) {
	type said struct {
		convert.Danger
		message string
	}
	lines := map[said][]string{} // where it stands
	var all []said
	for _, n := range notes {
		s, at := said{n.Danger, n.Message}, n.Origin.String()
		if lines[s] == nil {
			all = append(all, s)
		}
		if n := len(lines[s]); n == 0 || lines[s][n-1] != at { // else of another service
			lines[s] = append(lines[s], at)
		}
	}
	for _, s := range all {
		at, more := lines[s], ""
		if n := len(at) - 3; n > 0 {
			at, more = at[:3], fmt.Sprintf(" and %d more", n)
		}
		note := convert.Note{Message: s.message}
		fmt.Fprintf(c.Err, "svcproxy: not imported, %s: %s%s: %s\n", s.Danger, strings.Join(at, ", "), more, note.Text())
	}
}

// writeFiles writes the services, and what keepalived goes on with.
func (c *importCommand) writeFiles(services string) error {
	conf, err := c.takeover.keepalivedConf()
	if err != nil {
		return err
	}
	beside := ""
	if conf != "" {
		beside = filepath.Join(filepath.Dir(c.write), "keepalived.conf")
		write := func(w io.Writer) error {
			_, err := io.WriteString(w, conf)
			return err
		}
		if err := writeNew(beside, 0o600, write); err != nil { // it may have secrets
			return err
		}
	}
	if err := writeServices(c.write, services); err != nil {
		if beside != "" {
			err = errors.Join(err, os.Remove(beside))
		}
		return err
	}
	c.takeover.conf = beside
	return nil
}

// daemonUser is the user that svcproxy's unit runs as.
const daemonUser = "svcproxy"

// writeServices writes a services file that only its owner may read: the user svcproxy where root imports and
// there is one, as the daemon has to read it.
func writeServices(name, document string) error {
	write := func(w io.Writer) error {
		_, err := io.WriteString(w, document)
		return err
	}
	if err := writeNew(name, 0o600, write); err != nil {
		return err
	}
	owner, err := user.Lookup(daemonUser)
	if os.Geteuid() != 0 || err != nil {
		return nil
	}
	uid, err := strconv.Atoi(owner.Uid)
	if err == nil {
		err = os.Lchown(name, uid, -1)
	}
	if err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}
