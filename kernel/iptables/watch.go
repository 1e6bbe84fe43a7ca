package iptables

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Writer is a process that changed rules of nftables. The zero value is an unknown one.
type Writer struct {
	PID  uint32 // in the first PID namespace
	Name string // at most 15 bytes
}

func (w Writer) String() string {
	if w.Name == "" {
		return ""
	}
	return fmt.Sprintf("%s (pid %d)", w.Name, w.PID)
}

// writeDebounce is how long a Subscription waits after a change: a restart of a firewall makes several.
const writeDebounce = 20 * time.Millisecond

// Subscription receives the ends of transactions of nftables in one network namespace.
type Subscription struct{ events *os.File }

// Subscribe subscribes in the network namespace of the calling thread. It returns nil if no rules of ours are in
// nftables: the kernel has no notifications of changes in the legacy tables and in ipsets.
func (t *Tables) Subscribe() (*Subscription, error) {
	if len(t.bases.nft) == 0 {
		return nil, nil
	}
	f, err := nl.Listen(unix.NETLINK_NETFILTER, onlyEnds, unix.NFNLGRP_NFTABLES)
	if err != nil {
		return nil, fmt.Errorf("subscribing to nftables: %w", err)
	}
	return &Subscription{f}, nil
}

// onlyEnds makes the kernel drop all messages but the last one of each transaction. A load of our own has thousands.
var onlyEnds = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: 4}, // nlmsg_type
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nl.Swap16(newGen), Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: 1<<32 - 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
}

const newGen = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWGEN

// Watch calls notify with the processes that changed rules, each once, at most 50 times a second. What this
// process and the tools that it starts write does not count. After lost notifications there is a zero Writer. Watch
// returns when ctx ends.
func (s *Subscription) Watch(ctx context.Context, notify func([]Writer)) error {
	defer s.events.Close()
	defer context.AfterFunc(ctx, func() { s.events.Close() })()
	buf := make([]byte, 16<<10)
	var found []commit
	for {
		n, err := s.events.Read(buf)
		var heard []commit
		switch {
		case errors.Is(err, os.ErrClosed):
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			// A tool's PID may be noted just after its first write.
			if others := othersOf(found, started.has); len(others) > 0 {
				notify(others)
			}
			found = nil
			s.events.SetReadDeadline(time.Time{})
		case errors.Is(err, unix.ENOBUFS):
			heard = []commit{{}}
		case err != nil:
			return fmt.Errorf("listening to nftables: %w", err)
		default:
			heard = decodeCommits(buf[:n])
		}
		if len(found) == 0 && len(heard) > 0 {
			s.events.SetReadDeadline(time.Now().Add(writeDebounce))
		}
		found = with(found, heard)
	}
}

// commit is a transaction of nftables.
type commit struct {
	Writer
	port uint32 // of the netlink socket: the first of a process has its PID, in its own PID namespace
}

// decodeCommits returns the transactions that a datagram tells of. One that cannot be decoded is by an unknown process.
func decodeCommits(datagram []byte) (found []commit) {
	messages, err := syscall.ParseNetlinkMessage(datagram)
	if err != nil {
		return []commit{{}}
	}
	for _, m := range messages {
		if m.Header.Type != newGen {
			continue
		}
		w := commit{port: m.Header.Pid}
		a := nl.ParseAttrs(m.Data[min(4, len(m.Data)):])
		for a.Next() {
			switch a.Type() {
			case unix.NFTA_GEN_PROC_PID:
				w.PID = a.U32BE()
			case unix.NFTA_GEN_PROC_NAME:
				w.Name = a.Text()
			}
		}
		if a.Err() != nil {
			w = commit{}
		}
		found = append(found, w)
	}
	return found
}

// mostCommits is how many writers are kept between two notifications.
const mostCommits = 16

// with adds commits that the list does not have.
func with(list, more []commit) []commit {
	for _, w := range more {
		if len(list) < mostCommits && !slices.Contains(list, w) {
			list = append(list, w)
		}
	}
	return list
}

// othersOf returns the writers that are not ours, by the PIDs of our processes.
func othersOf(list []commit, ours func(pid uint32) bool) (others []Writer) {
	for _, w := range list {
		if !ours(w.PID) && !ours(w.port) {
			others = append(others, w.Writer)
		}
	}
	return others
}
