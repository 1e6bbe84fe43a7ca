package iptables

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
)

// legacyStamp is a hash of the legacy tables in the kernel, without counters. 5,000 services have
// 14 MB of entries, so it is not a cryptographic hash, which would cost half of a check. Its seed is
// random, so nobody can write rules that collide.
type legacyStamp struct {
	fd      int // -1 until a table is read
	layout  layout
	seed    maphash.Seed
	found   []string // tables that existed at the last read
	passive bool     // no table is created by asking for it, unless its module is loaded and the list may not be read
}

// layout describes struct ipt_entry or ip6t_entry of a family, and how to ask for it.
type layout struct {
	domain, level int
	names         string // the file with the names of existing tables
	module        string // begin of the folder that exists if the module of a table is loaded
	target        int    // offset of target_offset, 16 bits
	next          int    // offset of next_offset, 16 bits
	counters      int    // offset of struct xt_counters
	size          int    // of the entry without its matches, in bytes
}

// Offsets in bytes from linux/netfilter_ipv4/ip_tables.h and ip6_tables.h on 64-bit machines.
// struct ipt_ip has 84 bytes, struct ip6t_ip6 has 136. Then come nfcache, target_offset,
// next_offset, comefrom and, aligned to 8, the counters.
var layouts = map[kernel.Family]layout{
	kernel.IPv4: {
		domain: unix.AF_INET, level: unix.SOL_IP, names: "/proc/thread-self/net/ip_tables_names",
		module: "/sys/module/iptable_",
		target: 88, next: 90, counters: 96, size: 112,
	},
	kernel.IPv6: {
		domain: unix.AF_INET6, level: unix.SOL_IPV6, names: "/proc/thread-self/net/ip6_tables_names",
		module: "/sys/module/ip6table_",
		target: 140, next: 142, counters: 152, size: 168,
	},
}

const (
	countersSize = 16 // struct xt_counters: packets and bytes
	targetSize   = 32 // struct xt_entry_target: 16 bits of size, the name, a byte of revision

	// IPT_SO_GET_INFO and IPT_SO_GET_ENTRIES. IPv6 has the same numbers.
	soGetInfo    = 64
	soGetEntries = 65

	infoSize  = 84 // struct ipt_getinfo; its last 32 bits are the size of the entries
	nameSize  = 32 // XT_TABLE_MAXNAMELEN
	entriesAt = 40 // struct ipt_get_entries: name, size, entries aligned to 8
)

func newLegacyStamp(f kernel.Family) (*legacyStamp, error) {
	return &legacyStamp{fd: -1, layout: layouts[f], seed: maphash.MakeSeed()}, nil
}

// open opens the socket to ask by.
func (s *legacyStamp) open() (err error) {
	if s.fd >= 0 {
		return nil
	}
	if s.fd, err = unix.Socket(s.layout.domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW); err != nil {
		return fmt.Errorf("raw socket: %w", err)
	}
	return nil
}

// mayExist reports whether asking for a table loads no module, where the list of tables may not be read.
func (s *legacyStamp) mayExist(table string) bool {
	if exists(s.layout.module + table) {
		return true
	}
	return !exists("/proc/modules") && exists(s.layout.names) // it is built in, or missing
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (s *legacyStamp) Close() error {
	if s.fd < 0 {
		return nil
	}
	return unix.Close(s.fd)
}

func (s *legacyStamp) present() ([]string, error) { return s.found, nil }

func (s *legacyStamp) read() (string, error) {
	// Asking for a table that no program uses would create it, with its hooks.
	list, err := os.ReadFile(s.layout.names)
	inUse := strings.Fields(string(list))
	switch {
	case errors.Is(err, fs.ErrPermission):
		// Only root may read the list, whatever our capabilities. We ask for tables that we write
		// to, so they will soon exist anyway. Table raw, and the tables of a back end that we do not write, are
		// asked for if that loads no module.
		inUse = slices.DeleteFunc(slices.Clone(tables), func(table string) bool {
			return (table == raw || s.passive) && !s.mayExist(table)
		})
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("tables in use: %w", err)
	}
	s.found = nil
	var id []byte
	for _, table := range tables {
		if !slices.Contains(inUse, table) {
			continue
		}
		entries, err := s.entries(table)
		if (s.passive || table == raw) && errors.Is(err, unix.ENOENT) {
			continue // it was asked for without knowing that it exists
		}
		s.found = append(s.found, table)
		if err == nil {
			err = s.layout.clearCounters(entries)
		}
		if err != nil {
			return "", fmt.Errorf("entries of table %s: %w", table, err)
		}
		id = fmt.Appendf(id, "%s %d %x ", table, len(entries), maphash.Bytes(s.seed, entries))
	}
	return string(id), nil
}

// entries returns the rules of a table in the kernel's own form.
func (s *legacyStamp) entries(table string) ([]byte, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		info := make([]byte, infoSize)
		copy(info[:nameSize-1], table)
		if err := getsockopt(s.fd, s.layout.level, soGetInfo, info); err != nil {
			return nil, err
		}
		size := binary.NativeEndian.Uint32(info[infoSize-4:])
		buf := make([]byte, entriesAt+int(size))
		copy(buf[:nameSize-1], table)
		binary.NativeEndian.PutUint32(buf[nameSize:], size)
		err := getsockopt(s.fd, s.layout.level, soGetEntries, buf)
		if err == nil {
			return buf[entriesAt:], nil
		}
		// EAGAIN: the table was replaced by one of another size.
		if !errors.Is(err, unix.EAGAIN) || try == tries {
			return nil, err
		}
	}
}

// clearCounters sets the counters of all entries to zero.
func (l layout) clearCounters(entries []byte) error {
	return l.each(entries, func(e []byte) { copy(e[l.counters:], zeroCounters) })
}

// each calls a function for each entry.
func (l layout) each(entries []byte, do func(entry []byte)) error {
	for rest := entries; len(rest) > 0; {
		if len(rest) < l.size {
			return fmt.Errorf("%d bytes left over", len(rest))
		}
		next := int(binary.NativeEndian.Uint16(rest[l.next:]))
		if next < l.size || next > len(rest) {
			return fmt.Errorf("an entry of %d bytes with %d left", next, len(rest))
		}
		do(rest[:next])
		rest = rest[next:]
	}
	return nil
}

// chains reads the tables that the last read found once more.
func (s *legacyStamp) chains() (map[string][]string, error) {
	found := make(map[string][]string)
	for _, table := range s.found {
		entries, err := s.entries(table)
		if err == nil {
			found[table], err = s.layout.chains(entries)
		}
		if err != nil {
			return nil, fmt.Errorf("chains of table %s: %w", table, err)
		}
	}
	return found, nil
}

// chains returns the names of chains that are not built in. Each begins with an entry whose target is ERROR and
// has the name. So does the end of a table, with the name ERROR.
func (l layout) chains(entries []byte) (names []string, err error) {
	err = l.each(entries, func(e []byte) {
		at := int(binary.NativeEndian.Uint16(e[l.target:]))
		if at < l.size || at+targetSize > len(e) {
			return
		}
		target := e[at:]
		if text(target[2:targetSize]) == "ERROR" {
			names = append(names, text(target[targetSize:]))
		}
	})
	return names, err
}

// text returns the text that ends before a NUL.
func text(b []byte) string {
	before, _, _ := bytes.Cut(b, []byte{0})
	return string(before)
}

var zeroCounters = bytes.Repeat([]byte{0}, countersSize)

func getsockopt(fd, level, name int, buf []byte) error {
	n := uint32(len(buf))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name),
		uintptr(unsafe.Pointer(&buf[0])), uintptr(unsafe.Pointer(&n)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
