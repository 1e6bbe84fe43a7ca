#!/bin/sh
# Tries to write to the host from the guest. $1 is a folder of the host's.
set -ex
test "$SVCPROXY_GUEST" = 1
test "$GREETING" = "from the host"

# The overlay takes writes, here and to files the host has.
echo guest >"$1/new"
echo guest >"$1/kept"
echo guest >/etc/guest-was-here
rm -rf "$1/folder"

# Below the overlay the host is read-only, for the kernel's root too.
mkdir /run/again
if mount -t 9p -o trans=virtio,version=9p2000.L,rw root /run/again; then
	if echo guest >"/run/again$1/below"; then exit 10; fi
	if rm "/run/again$1/kept"; then exit 11; fi
fi

# The one way out.
mkdir "$SVCPROXY_GUEST_OUT/results"
echo 42 >"$SVCPROXY_GUEST_OUT/results/answer"
exit 33
