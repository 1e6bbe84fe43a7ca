package ipvs

import (
	"encoding/binary"
	"net/netip"
	"sync/atomic"
	"unsafe"

	moby "github.com/moby/ipvs"
	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
)

// Options of getsockopt(2) on an IPv4 socket (linux/ip_vs.h, from IP_VS_BASE_CTL on).
const (
	optInfo     = 1153
	optServices = 1154
	optDests    = 1156
	optTimeouts = 1158
	optDaemons  = 1159
)

// Sizes in bytes of the structs in linux/ip_vs.h if a 64-bit integer is aligned to 8 bytes. That is
// so everywhere but on 386, whose kernel rejects these lengths with EINVAL.
const (
	servicesHead = 8   // struct ip_vs_get_services: the count, padded
	serviceSize  = 104 // struct ip_vs_service_entry
	destsHead    = 24  // struct ip_vs_get_dests: the virtual server and the count, padded
	destSize     = 96  // struct ip_vs_dest_entry
	infoSize     = 12  // struct ip_vs_getinfo
	timeoutsSize = 12  // struct ip_vs_timeout_user
	daemonSize   = 24  // struct ip_vs_daemon_user
)

// sockopt reads the IPv4 half of the tables. The kernel fills an array and does not say how much of
// it. So each array is cleared first and has some spare room. One that comes back full may have
// been too small and is read again.
type sockopt struct {
	fd       int
	buf      []byte
	services int    // capacity for virtual servers in the next reading, 0 before the first
	dests    []dest // reused by readDests
	calls    atomic.Uint64
}

func openSockopt() (*sockopt, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &sockopt{fd: fd}, nil
}

func (s *sockopt) close() error { return unix.Close(s.fd) }

// get calls getsockopt with buf as question and answer.
func (s *sockopt) get(option int, buf []byte) error {
	s.calls.Add(1)
	n := uint32(len(buf))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(s.fd), unix.SOL_IP, uintptr(option),
		uintptr(unsafe.Pointer(&buf[0])), uintptr(unsafe.Pointer(&n)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// room returns n zero bytes, valid until the next call.
func (s *sockopt) room(n int) []byte {
	if cap(s.buf) < n {
		s.buf = make([]byte, n)
	}
	s.buf = s.buf[:n]
	clear(s.buf)
	return s.buf
}

// info returns the number of IPv4 virtual servers.
func (s *sockopt) info() (services int, err error) {
	p := s.room(infoSize)
	if err := s.get(optInfo, p); err != nil {
		return 0, err
	}
	return int(binary.NativeEndian.Uint32(p[8:])), nil
}

// timeouts returns the IPVS timeouts, which hold for both families.
func (s *sockopt) timeouts() (kernel.Timeouts, error) {
	p := s.room(timeoutsSize)
	if err := s.get(optTimeouts, p); err != nil {
		return kernel.Timeouts{}, err
	}
	n := binary.NativeEndian
	return kernel.Timeouts{TCP: n.Uint32(p), TCPFin: n.Uint32(p[4:]), UDP: n.Uint32(p[8:])}, nil
}

// syncs reports whether a daemon of connection sync runs, of either role.
func (s *sockopt) syncs() (bool, error) {
	p := s.room(2 * daemonSize)
	if err := s.get(optDaemons, p); err != nil {
		return false, err
	}
	n := binary.NativeEndian
	return n.Uint32(p) != 0 || n.Uint32(p[daemonSize:]) != 0, nil
}

// linkIndex returns the index of a link; 0 if there is none of this name.
func (s *sockopt) linkIndex(name string) int {
	r, err := unix.NewIfreq(name)
	if err != nil || unix.IoctlIfreq(s.fd, unix.SIOCGIFINDEX, r) != nil {
		return 0
	}
	return int(r.Uint32())
}

// readServices returns all IPv4 virtual servers.
func (s *sockopt) readServices(n names) ([]service, error) {
	if s.services == 0 {
		there, err := s.info()
		if err != nil {
			return nil, err
		}
		s.services = there + 64
	}
	for {
		p := s.room(servicesHead + s.services*serviceSize)
		binary.NativeEndian.PutUint32(p, uint32(s.services))
		if err := s.get(optServices, p); err != nil {
			return nil, err
		}
		all := decodeServices(p, n)
		if len(all) < s.services {
			s.services = len(all) + len(all)/8 + 64
			return all, nil
		}
		s.services *= 2
	}
}

// readDests returns the IPv4 real servers of an IPv4 virtual server, valid until the next call.
// About n are expected. If the virtual server does not exist, the error is ESRCH.
func (s *sockopt) readDests(v kernel.VirtualKey, n int) ([]dest, error) {
	for n++; ; n *= 2 {
		p := s.room(destsHead + n*destSize)
		if mark := v.Mark(); mark != 0 {
			binary.NativeEndian.PutUint32(p[12:], mark)
		} else {
			binary.NativeEndian.PutUint16(p, uint16(v.Proto))
			copy(p[4:], v.Addr.AsSlice())
			binary.BigEndian.PutUint16(p[8:], v.Port)
		}
		binary.NativeEndian.PutUint32(p[16:], uint32(n))
		if err := s.get(optDests, p); err != nil {
			return nil, err
		}
		s.dests = decodeDests(s.dests[:0], p, v)
		if len(s.dests) < n {
			return s.dests, nil
		}
	}
}

// decodeServices decodes a struct ip_vs_get_services up to the first empty entry. An empty one has
// no scheduler; the kernel writes at least "none" (ip_vs_copy_service).
func decodeServices(p []byte, n names) []service {
	if len(p) < servicesHead {
		return nil
	}
	p = p[servicesHead:]
	all := make([]service, 0, len(p)/serviceSize)
	for ; len(p) >= serviceSize; p = p[serviceSize:] {
		scheduler := cString(p[16:32])
		if len(scheduler) == 0 {
			break
		}
		key := kernel.VirtualKey{
			Addr: netip.AddrFrom4([4]byte(p[4:])), Port: binary.BigEndian.Uint16(p[8:]),
			Proto: kernel.Proto(binary.NativeEndian.Uint16(p)),
		}
		if mark := binary.NativeEndian.Uint32(p[12:]); mark != 0 {
			key = kernel.MarkKey(kernel.IPv4, mark)
		}
		all = append(all, service{
			Virtual: normal(kernel.Virtual{
				Key:       key,
				Scheduler: n.of(scheduler),
				Flags:     binary.NativeEndian.Uint32(p[32:]),
				Timeout:   binary.NativeEndian.Uint32(p[36:]),
				Netmask:   prefixLength(binary.BigEndian.Uint32(p[40:])),
			}),
			family: kernel.IPv4,
			reals:  int(binary.NativeEndian.Uint32(p[44:])),
		})
	}
	return all
}

// decodeDests appends the entries of a struct ip_vs_get_dests up to the first empty one. The kernel
// rejects a real server at 0.0.0.0 (__ip_vs_new_dest), so an empty entry has that address.
func decodeDests(all []dest, p []byte, v kernel.VirtualKey) []dest {
	if len(p) < destsHead {
		return all
	}
	p = p[destsHead:]
	for ; len(p) >= destSize; p = p[destSize:] {
		addr := netip.AddrFrom4([4]byte(p))
		if addr.IsUnspecified() {
			break
		}
		all = append(all, dest{
			Real: kernel.Real{
				Key:     kernel.RealKey{Virtual: v, Addr: netip.AddrPortFrom(addr, binary.BigEndian.Uint16(p[4:]))},
				Forward: kernel.Forward(binary.NativeEndian.Uint32(p[8:]) & moby.ConnectionFlagFwdMask),
				Weight:  binary.NativeEndian.Uint32(p[12:]),
				Upper:   binary.NativeEndian.Uint32(p[16:]),
				Lower:   binary.NativeEndian.Uint32(p[20:]),
			},
			Conns: kernel.Conns{
				Active:   binary.NativeEndian.Uint32(p[24:]),
				Inactive: binary.NativeEndian.Uint32(p[28:]),
				Persist:  binary.NativeEndian.Uint32(p[32:]),
			},
		})
	}
	return all
}
