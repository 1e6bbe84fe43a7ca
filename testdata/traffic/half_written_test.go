package traffic

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// A writer that truncates services.toml, writes 70 % of it and pauses removes nothing at any moment, whether what there
// is ends in the middle of a service or after one. Of 100 requests to services at the end of the file none fails.
func TestHalfWrittenFileRemovesNothing(t *testing.T) {
	n := newNode(t, "")
	const services = 20
	var all []string
	for i := range services {
		all = append(all, clusterIP(fmt.Sprintf("s%d", i), fmt.Sprintf("10.96.4.%d", i+1), allV4))
	}
	text := strings.Join(all, "")
	n.start(t, text)
	before := n.read(t)
	path := filepath.Join(n.Dir, "services.toml")
	for _, c := range []struct {
		what  string
		part  int
		pause time.Duration
	}{
		{"a part of a service, 300 ms", len(text) * 7 / 10, 300 * time.Millisecond},
		{"whole services, 300 ms", len(strings.Join(all[:services*7/10], "")), 300 * time.Millisecond},
		{"a part of a service, 5 s", len(text) * 7 / 10, 5 * time.Second},
		{"whole services, 5 s", len(strings.Join(all[:services*7/10], "")), 5 * time.Second},
	} {
		mark, written := n.Log.Len(), pausingWriter(t, path, text, c.part, c.pause)
		out, paused := "", time.Duration(0)
		for asked := 0; asked < 100 || paused == 0; asked++ {
			to := netip.MustParseAddrPort(fmt.Sprintf("10.96.4.%d:80", services-asked%4))
			if _, err := n.Client.Ask("tcp", to); err != nil {
				t.Errorf("%s: request %d: %v", c.what, asked, err)
			}
			if asked%50 == 0 {
				if diff := lab.Diff(before, n.read(t)); diff != "" {
					t.Errorf("%s: the kernel before and after:\n%s", c.what, head(diff))
				}
			}
			select {
			case paused = <-written:
			default:
			}
			if c.pause > time.Second && paused == 0 {
				if said, _ := n.asks(t, "status"); strings.Contains(said, path) {
					out = said
				}
			}
		}
		if paused > 9*time.Second {
			t.Logf("%s: the writer paused for %v, which says nothing", c.what, paused)
			continue
		}
		if c.pause > time.Second && out == "" {
			t.Errorf("%s: status did not name the file", c.what)
		}
		if said := n.Log.String()[mark:]; strings.Contains(said, "msg=synced") {
			t.Errorf("%s: log: %s", c.what, said)
		}
	}
	n.serve(t, text+clusterIP("after", "10.96.4.100", allV4))
	wantEach(t, n.Client, "tcp", "10.96.4.100:80")
}

// pausingWriter truncates a file and writes it in two parts, with a pause in between. It says how long that was.
func pausingWriter(t *testing.T, path, text string, part int, pause time.Duration) <-chan time.Duration {
	file, err := os.Create(path)
	must(t, err)
	begin := time.Now()
	_, err = file.WriteString(text[:part])
	must(t, err)
	written := make(chan time.Duration, 1)
	go func() {
		time.Sleep(pause)
		_, err := file.WriteString(text[part:])
		if err = errors.Join(err, file.Close()); err != nil {
			t.Error(err)
		}
		written <- time.Since(begin)
	}()
	return written
}
