package nl

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Family returns the message type of a generic netlink family on a NETLINK_GENERIC connection.
// Asking makes the kernel load the module that announces the family, if there is one
// (net/netlink/genetlink.c, ctrl_getfamily). A family that is still missing is ErrNoFamily, and
// never an id of 0: a message of type 0 is acknowledged by the kernel and does nothing.
func Family(c *Conn, name string) (uint16, error) {
	var b Batch
	b.Begin(unix.GENL_ID_CTRL, 0)
	b.Genl(unix.CTRL_CMD_GETFAMILY, 1)
	b.Text(unix.CTRL_ATTR_FAMILY_NAME, name)
	b.End()

	var id uint16
	err := c.Get(&b, func(payload []byte) error {
		var err error
		id, err = familyID(payload)
		return err
	})
	switch {
	case errors.Is(err, unix.ENOENT):
		return 0, fmt.Errorf("%w: %s", ErrNoFamily, name)
	case err != nil:
		return 0, fmt.Errorf("looking up generic netlink family %s: %w", name, err)
	case id == 0:
		return 0, fmt.Errorf("%w: %s: the answer holds no id", ErrNoFamily, name)
	}
	return id, nil
}

// familyID reads the id out of a CTRL_CMD_NEWFAMILY message, 0 if it has none.
func familyID(payload []byte) (uint16, error) {
	if len(payload) < unix.GENL_HDRLEN {
		return 0, fmt.Errorf("generic netlink message of %d bytes", len(payload))
	}
	var id uint16
	a := ParseAttrs(payload[unix.GENL_HDRLEN:])
	for a.Next() {
		if a.Type() == unix.CTRL_ATTR_FAMILY_ID {
			id = a.U16()
		}
	}
	return id, a.Err()
}
