package commands

import (
	"errors"
	"io"
	"os"
	"os/user"
	"strconv"
)

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
