package nl

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Family returns the message type of a generic netlink family, as the network namespace of the
// calling thread has it. The kernel loads the module that announces the family, if there is one
// (net/netlink/genetlink.c, ctrl_getfamily).
//
// If the kernel has no such family, the error is ErrNoFamily. Family never returns an id of 0: the
// kernel acknowledges a message of type 0 and does nothing, so every call would look successful.
func Family(name string) (uint16, error) {
	h, err := netlink.NewHandle(unix.NETLINK_GENERIC)
	if err != nil {
		return 0, fmt.Errorf("opening generic netlink: %w", err)
	}
	defer h.Close()
	if err := h.SetSocketTimeout(Timeout); err != nil {
		return 0, fmt.Errorf("setting up generic netlink: %w", err)
	}
	family, err := h.GenlFamilyGet(name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return 0, fmt.Errorf("%w: %s", ErrNoFamily, name)
	case err != nil:
		return 0, fmt.Errorf("looking up generic netlink family %s: %w", name, err)
	case family.ID == 0:
		return 0, fmt.Errorf("%w: %s: the answer holds no id", ErrNoFamily, name)
	}
	return family.ID, nil
}
