package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/statefile"
)

const (
	// recordFile is the file in the state directory that has the owned virtual servers.
	recordFile = "virtuals"
	// maxRecord in bytes is about 400,000 virtual servers, far more than IPVS is used
	// for.
	maxRecord = 32 << 20
	// slack is how many lines a journal may have beyond twice the number of its virtual
	// servers.
	slack = 1000
)

// record is the file of a kernel.Record. It is valid for one boot and one network
// namespace, and it is for a process that was killed, so it is not synced to the disk.
// Changes are appended.
type record struct {
	path   string // "" writes nothing
	head   string // first line
	keeper *statefile.Keeper

	// These belong to put.
	last  kernel.Record // what the file has
	lines int           // of the file, 0 if it must be rewritten

	mu      sync.Mutex
	next    *kernel.Record // to be written
	writing bool
	err     error
	idle    sync.WaitGroup
}

// openRecord reads the file. It ignores a file of another boot or namespace, and one
// that cannot be read: the record only adds to what the kernel says is owned.
func openRecord(stateDir, bootID string, keeper *statefile.Keeper) *record {
	r := &record{keeper: keeper}
	namespace, err := namespaceName()
	if stateDir == "" || bootID == "" || err != nil {
		return r
	}
	r.path = filepath.Join(stateDir, recordFile)
	r.head = fmt.Sprintf("# virtual servers of svcproxy, boot %s, network namespace %s\n", bootID, namespace)
	text, err := statefile.Read(r.path, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return r
	}
	if err == nil {
		if lines, ok := bytes.CutPrefix(text, []byte(r.head)); ok {
			r.last, r.lines, err = kernel.ParseRecord(lines)
		}
	}
	if err != nil {
		r.err = fmt.Errorf("%s: %w", r.path, err)
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		r.lines = 0 // the next line would be appended to an incomplete one
	}
	return r
}

// namespaceName identifies a network namespace by its cookie where the kernel is 5.14 or
// newer. A later namespace may have the same inode.
func namespaceName() (string, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE); err == nil {
		return fmt.Sprintf("cookie %d", cookie), nil
	}
	var st unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &st); err != nil {
		return "", err
	}
	return fmt.Sprintf("inode %d", st.Ino), nil
}

// keep writes the record in a goroutine, so that nothing waits for a slow disk. Of
// several waiting records only the last is written.
func (r *record) keep(now kernel.Record) {
	if r.path == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = &now
	if !r.writing {
		r.writing = true
		r.idle.Go(r.write)
	}
}

// write writes until no record waits.
func (r *record) write() {
	for {
		r.mu.Lock()
		now := r.next
		r.next = nil
		if now == nil {
			r.writing = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		_ = r.keeper.Do(recordFile, func() error { return r.put(*now) }) // warning has the error
	}
}

// put writes a record, and notes whether that succeeded.
func (r *record) put(now kernel.Record) error {
	err := r.replace(now)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err = err; r.keeper != nil {
		r.err = nil // the Keeper says it
	}
	return err
}

func (r *record) replace(now kernel.Record) error {
	if r.lines > 0 && r.append(now) {
		return nil
	}
	// Rewrite the file, also if appending failed: half of it may have been written.
	r.lines = 0
	text := kernel.AppendRecord([]byte(r.head), now)
	if len(text) > maxRecord {
		return fmt.Errorf("%s: %d virtual servers are too many to remember", r.path, len(now.Made))
	}
	if err := statefile.Put(r.path, text, 0o600); err != nil {
		return fmt.Errorf("remembering which virtual servers are ours: %w", err)
	}
	r.last, r.lines = now, bytes.Count(text, []byte("\n"))
	return nil
}

// append appends what differs from the last record. It returns false if the file must be rewritten.
func (r *record) append(now kernel.Record) bool {
	changes := kernel.AppendChanges(nil, r.last, now)
	more := bytes.Count(changes, []byte("\n"))
	sameLeft := len(kernel.AppendMade(nil, r.last.Left, now.Left)) == 0
	switch {
	case !sameLeft || r.lines+more > 2*(len(now.Made)+len(now.Digests))+slack:
		return false
	case more > 0 && statefile.Append(r.path, changes) != nil:
		return false
	}
	r.last, r.lines = now, r.lines+more
	return true
}

func (r *record) warning() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// close waits until the last record is written.
func (r *record) close() { r.idle.Wait() }

// ForgetRecord removes the file when no owned object is left.
func ForgetRecord(stateDir string) error {
	if err := statefile.Remove(filepath.Join(stateDir, recordFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("forgetting which virtual servers were ours: %w", err)
	}
	return nil
}
