package host

import "golang.org/x/sys/unix"

// SmallPages has the kernel give this process, and what it starts, pages of 4 KiB
// alone from now on. Where transparent huge pages are for all (Debian's default) 2 MiB
// become resident by the first touch of any of it, and what was given back comes
// again: khugepaged makes huge pages of those that have a single small one left.
// Measured with 1,000 services of 10 endpoints on Linux 6.1: 22 MB after a start, and
// 42 MB a minute later without any work; a start takes no more instructions for it. A
// kernel that cannot is no worse off.
func SmallPages() { _ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0) }
