package probe

import (
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// maxCAFile bounds a file of certificates, in bytes. The system's file has 200 kB.
const maxCAFile = 4 << 20

// caFiles caches the certificates of CA files. A file that has changed is read again.
type caFiles struct {
	mu    sync.Mutex
	files map[string]caFile
}

type caFile struct {
	modified time.Time
	size     int64
	pool     *x509.CertPool
}

func (c *caFiles) load(path string) (*x509.CertPool, error) {
	// To open a device may have an effect, and a FIFO would wait for a writer. The file may be replaced at any
	// time, so the one that is open is judged, too.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("CA file %s is not a regular file", path)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("CA file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("CA file: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.files[path]; known.pool != nil && known.modified.Equal(info.ModTime()) && known.size == info.Size() {
		return known.pool, nil
	}
	if info.Size() > maxCAFile {
		return nil, fmt.Errorf("CA file %s is larger than %d bytes", path, maxCAFile)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("CA file %s is not a regular file", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxCAFile))
	if err != nil {
		return nil, fmt.Errorf("CA file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("CA file %s has no certificate", path)
	}
	if c.files == nil {
		c.files = map[string]caFile{}
	}
	c.files[path] = caFile{info.ModTime(), info.Size(), pool}
	return pool, nil
}
