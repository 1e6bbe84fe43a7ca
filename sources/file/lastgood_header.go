package file

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/kernel/statefile"
)

// The first line of a copy says which file it is of, and has its sum. It is a comment in TOML and YAML, so an
// operator can use the copy as the file.
//
//	# last good content of "/etc/svcproxy/services.toml" of 2026-11-20T09:31:05Z crc32c 9f86d081
const headerFormat = "# last good content of %q of %s crc32c %08x"

// maxHeader bounds the first line: a path has at most 4096 bytes, in quotes at most four times as many.
const maxHeader = 20000

type head struct {
	name string
	at   time.Time
	sum  uint32
}

// sumOf detects accidents, not attacks. A cryptographic sum of 1,000 services took 1/60 of a start on a
// processor without instructions for it.
func sumOf(content []byte) uint32 {
	return crc32.Checksum(content, crc32.MakeTable(crc32.Castagnoli))
}

func header(name string, content []byte, at time.Time) []byte {
	return fmt.Appendf(nil, headerFormat+"\n", name, at.UTC().Format(time.RFC3339), sumOf(content))
}

func parseHeader(line string) (h head, err error) {
	var at string
	if _, err := fmt.Sscanf(line, headerFormat, &h.name, &at, &h.sum); err != nil {
		return head{}, fmt.Errorf("does not begin with what it is of: %w", err)
	}
	if h.at, err = time.Parse(time.RFC3339, at); err != nil {
		return head{}, fmt.Errorf("the time in its first line: %w", err)
	}
	return h, nil
}

func readHeader(d *statefile.Dir, file string) (head, error) {
	f, err := d.OpenFile(file)
	if err != nil {
		return head{}, err
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, maxHeader)).ReadString('\n')
	if err != nil {
		return head{}, err
	}
	return parseHeader(strings.TrimSuffix(line, "\n"))
}

// fileName is the file of a copy: a readable form of the name, and enough of its sum to be unique.
func fileName(name string) string {
	plain := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_':
			return r
		}
		return '-'
	}, strings.Trim(name, "/"))
	const most = 150 // of the 255 bytes that a file's name may have
	plain = plain[max(0, len(plain)-most):]
	sum := sha256.Sum256([]byte(name))
	return plain + "~" + hex.EncodeToString(sum[:6])
}

// isCopy reports whether a file's name is one of fileName.
func isCopy(file string) bool {
	_, sum, ok := strings.Cut(file, "~")
	bytes, err := hex.DecodeString(sum)
	return ok && err == nil && len(bytes) == 6
}
