package probe

import (
	"crypto/x509"
	"fmt"
	"os"
	"sync"
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
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("CA file: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.files[path]; f.pool != nil && f.modified.Equal(info.ModTime()) && f.size == info.Size() {
		return f.pool, nil
	}
	if info.Size() > maxCAFile {
		return nil, fmt.Errorf("CA file %s is larger than %d bytes", path, maxCAFile)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("CA file %s is not a regular file", path) // opening a FIFO would wait for a writer
	}
	text, err := os.ReadFile(path)
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
