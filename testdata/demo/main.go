// Command demo shows what svcproxy does, with real traffic. A client on another
// host, a node and three HTTP backends each have their own network namespace. The
// node runs the svcproxy binary from this program's folder.
//
// It refuses to say of anything that it works: each step looks, says what it saw,
// and fails if that is not what was promised. It exits 0 only if all of it held.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// A step is one thing that svcproxy promises.
type step struct {
	title, promise string
	look           func(*demo) (seen string, err error)
}

var steps = []step{
	{"A services file becomes served VIPs", "the VIP answers", (*demo).serveFile},
	{"300 requests over weighted backends", "50, 100 and 150, within 5 %", (*demo).spread},
	{"A changed file is saved", "a new service within 5 s", (*demo).change},
	{"A broken file is saved while traffic goes on", "refused with file and line, no request fails", (*demo).breakFile},
	{"kill -9, and a restart", "no request on a live connection fails", (*demo).kill},
	{"ipvsadm -C by hand", "healed at the next check", (*demo).drift},
	{"The VIP comes to a link, as with keepalived", "served there, not bound, no request fails", (*demo).onLink},
	{"An API server's VIP comes to a link, as with kube-vip", "all its addresses go on being served", (*demo).onLinkOfAPI},
	{"A newcomer's file wants the VIP", "who has it keeps it, the rest is served", (*demo).newcomer},
	{"A second svcproxy, with folders of its own", "refused, and its cleanup too", (*demo).second},
	{"A backend dies, and comes back", "out within 4 s, no new client is refused", (*demo).die},
	{"A backend drains under a hash scheduler", "no new client is refused", (*demo).drainHashed},
	{"Its own set is emptied while it is stopped", "its virtual servers stay its own", (*demo).forget},
	{"svcproxy stops and cleans up", "only what was there before is left", (*demo).cleanUp},
}

// A demo is the network, svcproxy on its node, and what was there before it.
type demo struct {
	*lab.Lab
	proxy  *lab.Proxy
	out    io.Writer
	before lab.Reading
}

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	d, err := newDemo(out)
	if err != nil {
		return err
	}
	defer d.close()
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\t\tSTEP\tPROMISED\tSEEN")
	failed := 0
	for i, s := range steps {
		fmt.Fprintf(out, "\n%d. %s\n\n", i+1, s.title)
		start := time.Now()
		seen, err := s.look(d)
		verdict := "ok"
		if err != nil {
			failed++
			verdict, seen = "FAILED", "see above"
			d.say("FAILED: %v", err)
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\n", verdict, i+1, s.title, s.promise, seen)
		d.say("%s, after %v", verdict, time.Since(start).Round(time.Millisecond))
	}
	fmt.Fprintln(out)
	table.Flush()
	fmt.Fprintln(out)
	if failed > 0 {
		fmt.Fprintf(out, "svcproxy's log:\n%s\n", d.proxy.Log.String())
		return fmt.Errorf("%d of %d steps did not hold", failed, len(steps))
	}
	fmt.Fprintf(out, "All %d steps held.\n", len(steps))
	return nil
}

func newDemo(out io.Writer) (*demo, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	binary := filepath.Join(filepath.Dir(self), "svcproxy")
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("`make demo` builds both: %w", err)
	}
	l, err := lab.New()
	if err != nil {
		return nil, err
	}
	d := &demo{Lab: l, out: out}
	if err := d.prepare(binary); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *demo) prepare(binary string) error {
	dir, err := os.MkdirTemp("", "svcproxy-demo-")
	if err != nil {
		return err
	}
	if d.proxy, err = lab.NewProxy(d.Node, binary, dir, configuration); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	d.say("client %v ---- %v node ---- 3 backends: %v, %v, %v",
		d.Client.V4, d.Node.V4, d.Backends[0].V4, d.Backends[1].V4, d.Backends[2].V4)
	d.say("Somebody else's virtual server is on the node already:")
	if err := d.plantForeign(); err != nil {
		return err
	}
	if d.before, err = d.Node.Read(); err != nil {
		return err
	}
	d.show(d.before.Virtuals...)
	return nil
}

func (d *demo) close() {
	if d.proxy != nil {
		d.proxy.Kill()
		os.RemoveAll(d.proxy.Dir)
	}
	d.Lab.Close()
}

// say tells what happens.
func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, "   "+format+"\n", args...) }

// show quotes a file, a log or a tool.
func (d *demo) show(lines ...string) {
	for _, l := range lines {
		fmt.Fprintf(d.out, "     | %s\n", l)
	}
}
