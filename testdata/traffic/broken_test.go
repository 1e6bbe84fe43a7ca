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

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
	"github.com/svcproxy/svcproxy/testdata/broken"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// refused reports whether a services file is, on any node.
func refused(content []byte) bool {
	table, _, problems := file.Decode("services.toml", content)
	errs := sources.Validate(table)
	return len(problems)+len(errs) > 0
}

// ways are the ways to break a file, as what puts it at a path.
func ways(valid string) []broken.Place {
	var all []broken.Place
	for _, c := range append(broken.Mutations([]byte(valid), 240), broken.ByHand([]byte(valid))...) {
		if refused(c.Content) {
			all = append(all, broken.Place{Name: c.Name, Make: func(path string) error { return os.WriteFile(path, c.Content, 0o644) }})
		}
	}
	return append(all, broken.Places()...)
}

// A services file that breaks, in any way there is, is refused, and neither the
// kernel nor a client sees anything of it.
func TestBrokenFilesChangeNothing(t *testing.T) {
	n := newNode(t, "")
	n.start(t, web)
	l := newLoad(t)
	l.put(t, n.Client, "10.96.0.20:80")
	l.put(t, n.Client, "[2001:db8:80::80]:80")
	l.goOn(t, 50)
	before := n.read(t)
	unchanged := func(after string) {
		t.Helper()
		if diff := lab.Diff(before, n.read(t)); diff != "" {
			t.Errorf("the kernel before and after %s:\n%s", after, head(diff))
		}
	}

	path := filepath.Join(n.Dir, "services.toml")
	begin, broken := time.Now(), ways(web)
	for i, w := range broken {
		must(t, os.RemoveAll(path+".new"))
		must(t, w.Make(path+".new"))
		must(t, os.RemoveAll(path))
		if _, err := os.Lstat(path + ".new"); err == nil { // else it is gone
			must(t, os.Rename(path+".new", path))
		}
		mark := n.Log.Len()
		must(t, unix.Kill(n.Pid(), unix.SIGHUP))
		if _, err := n.Wait(mark, `msg="reload: not all of it is served" refused=[1-9]`); err != nil {
			t.Fatalf("%s: %v", w.Name, err)
		}
		// The reason is said once, by the source: of two ways to break a file alike, before.
		// Of two problems, the first says what is served instead.
		log := n.Log.String()
		line := log[strings.LastIndex(log, "serving the last good content of"):]
		line, _, _ = strings.Cut(log[strings.LastIndex(log[:len(log)-len(line)], "msg=refused"):], "\n")
		if !strings.Contains(line, path) {
			t.Errorf("%s: %s", w.Name, line)
		}
		if i%80 == 0 {
			unchanged(w.Name)
		}
	}
	unchanged("all of them")
	if synced := strings.Count(n.Log.String(), "msg=synced"); synced != 1 {
		t.Errorf("%d syncs changed something", synced)
	}
	t.Logf("%d broken files in %v", len(broken), time.Since(begin))
	if len(broken) < 200 {
		t.Error("too few")
	}

	must(t, os.RemoveAll(path))
	n.serve(t, web+clusterIP("after", "10.96.0.21", allV4))
	wantEach(t, n.Client, "tcp", "10.96.0.21:80")
	l.wantServed(t)
}

// promised is how soon the last content of a file is to be served; a busy
// machine gets more.
const promised, generous = time.Second, 20 * time.Second

// However a file is written, what it holds at last is served soon after, and
// writing it a thousand times costs a handful of syncs.
func TestEveryWayToWriteIsServedSoon(t *testing.T) {
	n := newNode(t, "")
	n.start(t, clusterIP("first", "10.96.0.20", allV4))
	path := func(name string) string { return filepath.Join(n.Dir, name) }
	service := func(i int) string {
		return strings.Replace(clusterIP("web", fmt.Sprintf("10.96.1.%d", i), allV4),
			fmt.Sprint(lab.LinePort), fmt.Sprint(lab.HTTPPort), 1)
	}
	vip := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, 1, byte(i)}), 80)
	}
	i := 0
	// A SYN that comes too early is sent again after a second, which would be counted: no client waits so long.
	client := n.Client.HTTP(500 * time.Millisecond)
	served := func(how string) {
		t.Helper()
		begin := time.Now()
		must(t, lab.Eventually(patience, func() error { _, err := lab.Get(client, vip(i)); return err }))
		took := time.Since(begin)
		if took > generous {
			t.Errorf("%s: served after %v", how, took)
		}
		t.Logf("%s: served after %v, promised within %v", how, took, promised)
	}
	write := func(name, content string) { must(t, os.WriteFile(path(name), []byte(content), 0o644)) }

	i++
	must(t, n.Serve(service(i)))
	served("renamed over")
	i++
	write("services.toml", service(i))
	served("written in place")

	// As a kubelet mounts a ConfigMap: files are links through ..data, which is
	// swapped, and what it led to goes away.
	must(t, n.Serve("services = {} # all in services.d\n"))
	configMap := func(version, content string) {
		dir := "services.d/.." + version
		must(t, os.Mkdir(path(dir), 0o755))
		write(dir+"/web.toml", content)
		must(t, os.Symlink(".."+version, path("services.d/..tmp")))
		must(t, os.Rename(path("services.d/..tmp"), path("services.d/..data")))
	}
	i++
	configMap("1", service(i))
	must(t, os.Symlink("..data/web.toml", path("services.d/web.toml")))
	served("a link more in services.d")
	i++
	configMap("2", service(i))
	must(t, os.RemoveAll(path("services.d/..1")))
	served("the directory behind it swapped")

	must(t, os.Remove(path("services.d/web.toml")))
	must(t, lab.Eventually(generous, func() error {
		if _, err := lab.Get(client, vip(i)); err == nil {
			return errors.New("the service of a file that was removed is served")
		}
		return nil
	}))

	i++
	mark, begin := n.Log.Len(), time.Now()
	for k := range 999 {
		content := clusterIP("web", "10.96.2.1", fmt.Sprintf(`["10.2.1.%d"]`, k%200+1))
		if k%2 == 0 {
			write("services.toml", content)
		} else {
			must(t, n.Serve(content))
		}
	}
	must(t, n.Serve(service(i)))
	took := time.Since(begin)
	t.Logf("1000 writes in %v", took)
	served("the last of 1000 writes")
	if _, err := n.Wait(mark, lab.Synced); err != nil {
		t.Error(err)
	}
	// Where the writes take seconds, what is there is served meanwhile, at most each 400 ms once it goes on.
	synced := strings.Count(n.Log.String()[mark:], "msg=synced")
	if synced > 6+int(took/(400*time.Millisecond)) {
		t.Errorf("1000 writes made %d syncs", synced)
	}
	t.Logf("1000 writes made %d syncs", synced)
}

// What was good is served by the next process, too, though the file is broken
// when it starts and the kernel holds nothing any more.
func TestLastGoodIsServedByTheNextProcess(t *testing.T) {
	n := newNode(t, "")
	n.start(t, web)
	want := n.read(t)
	path := filepath.Join(n.Dir, "services.toml")
	must(t, lab.Eventually(patience, func() error {
		if kept, _ := filepath.Glob(filepath.Join(n.Dir, "state/last-good/services/*services.toml~*")); len(kept) != 1 {
			return fmt.Errorf("kept: %q", kept)
		}
		return nil
	}))
	mark := n.Log.Len()
	must(t, n.Serve(web[:len(web)/2]))
	if _, err := n.Wait(mark, "services.toml:.*serving the last good content of"); err != nil {
		t.Error(err)
	}
	n.Kill()
	if out, code, err := n.Command("cleanup"); err != nil || code != 0 {
		t.Fatal(out, code, err)
	}

	mark = n.Log.Len()
	must(t, n.Start())
	n.synced(t, mark)
	wantEach(t, n.Client, "tcp", "10.96.0.20:80")
	if diff := lab.Diff(want, n.read(t)); diff != "" {
		t.Errorf("the kernel by the file and by what was kept of it:\n%s", head(diff))
	}
	if _, err := n.Wait(mark, path+":.*serving the last good content of"); err != nil {
		t.Error(err)
	}
	if out, code := n.asks(t, "status"); code != 7 || !strings.Contains(out, "serving the last good content of") {
		t.Errorf("status: exit code %d\n%s", code, out)
	}
	n.serve(t, clusterIP("web", "10.96.0.21", allV4))
	wantEach(t, n.Client, "tcp", "10.96.0.21:80")
}

// A file that is rewritten in place, a service each 300 ms, is half a file for
// seconds. No virtual server is removed meanwhile, and no connection ends, whether
// the writer holds it open or opens it for each service.
func TestSlowRewriteRemovesNothing(t *testing.T) {
	n := newNode(t, "")
	var parts []string
	for i := range 8 {
		ports := fmt.Sprintf(`ports = [{ name = "t", port = 80, targetPort = %d }, { name = "u", port = 80, targetPort = %[1]d, protocol = "UDP" }]`, lab.LinePort)
		parts = append(parts, fmt.Sprintf("[services.s%d]\nclusterIP = \"10.96.3.%d\"\n%s\nendpoints = %s\n", i, i+1, ports, allV4))
	}
	n.start(t, strings.Join(parts, ""))
	before := n.read(t)
	for range 5 {
		if n.rewriteSlowly(t, parts, before) {
			return
		}
		must(t, lab.Eventually(patience, func() error { // the whole file is served again
			if diff := lab.Diff(before, n.read(t)); diff != "" {
				return errors.New(head(diff))
			}
			return nil
		}))
	}
	t.Error("the machine made too long pauses each time")
}

// rewriteSlowly is false if it says nothing: this process paused for nearly as long as a file must be quiet to be read.
func (n node) rewriteSlowly(t *testing.T, parts []string, before lab.Reading) bool {
	t.Helper()
	l := newLoad(t)
	l.put(t, n.Client, "10.96.3.1:80")
	l.put(t, n.Client, "10.96.3.8:80")
	l.goOn(t, 20)
	longest := pauses(t)
	path, mark := filepath.Join(n.Dir, "services.toml"), n.Log.Len()
	held, err := os.Create(path)
	must(t, err)
	for _, p := range parts {
		_, err := held.WriteString(p)
		must(t, err)
		time.Sleep(300 * time.Millisecond)
	}
	must(t, held.Close())
	must(t, os.WriteFile(path, nil, 0o644))
	status := make(chan string, 1)
	for i, p := range parts {
		time.Sleep(300 * time.Millisecond)
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		must(t, err)
		_, err = f.WriteString(p)
		must(t, errors.Join(err, f.Close()))
		if i == 1 { // takes its time in an emulated machine, as long as a file must be quiet
			go func() {
				out := ""
				for range 10 { // right after a write svcproxy may be about to look again
					if out, _, _ = n.Command("status"); strings.Contains(out, ": it takes effect when") {
						break
					}
					time.Sleep(100 * time.Millisecond)
				}
				status <- out
			}()
		}
	}
	out := ""
	for tries := 0; out == "" && tries < 40; tries++ { // the file is not quiet before the answer
		select {
		case out = <-status:
		case <-time.After(300 * time.Millisecond):
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			must(t, err)
			_, err = f.WriteString("\n")
			must(t, errors.Join(err, f.Close()))
		}
	}
	if pause := longest(); pause > 1500*time.Millisecond {
		t.Logf("a pause of %v", pause)
		l.end()
		return false
	}
	// It may have been asked before the second writer was noticed: then it names the first.
	if !strings.Contains(out, path) || !strings.Contains(out, ": it takes effect when it has not changed for ") {
		t.Errorf("status does not say that it waits for the file:\n%s", out)
	}
	time.Sleep(3 * time.Second) // it is quiet after 2
	if diff := lab.Diff(before, n.read(t)); diff != "" {
		t.Errorf("the kernel before and after:\n%s", head(diff))
	}
	if written := n.Log.String()[mark:]; strings.Contains(written, "msg=synced") || strings.Contains(written, "msg=refused") {
		t.Errorf("log: %s", written)
	}
	n.serve(t, strings.Join(parts, "")+clusterIP("after", "10.96.3.20", allV4))
	wantEach(t, n.Client, "tcp", "10.96.3.20:80")
	l.wantServed(t)
	return true
}

// A file that is broken when svcproxy starts, and never was good, costs the other
// files nothing. The first time that svcproxy runs nothing is known of what was
// good before; backends can still be removed.
func TestBrokenNewFileIsLeftOut(t *testing.T) {
	n := newNode(t, "")
	must(t, n.Serve(web))
	path := filepath.Join(n.Dir, "services.d/new.toml")
	must(t, os.WriteFile(path, []byte("[services.new]\nprots = 80\n"), 0o644))
	for range 2 {
		mark := n.Log.Len()
		must(t, n.Start())
		n.synced(t, mark)
		wantEach(t, n.Client, "tcp", "10.96.0.20:80")
		if out, code := n.asks(t, "status"); code != 7 || !strings.Contains(out, path+":") {
			t.Errorf("status: exit code %d\n%s", code, out)
		}
		must(t, n.Stop())
		if out, code, err := n.Command("cleanup"); err != nil || code != 0 { // as a reboot does
			t.Fatal(out, code, err)
		}
	}
	mark := n.Log.Len()
	must(t, n.Start())
	n.synced(t, mark)
	n.serve(t, clusterIP("web", "10.96.0.21", allV4))
	must(t, lab.Eventually(generous, func() error {
		if strings.Contains(fmt.Sprint(n.read(t)), "10.96.0.20:80") {
			return errors.New("a virtual server that left a good file is still there")
		}
		return nil
	}))
	mark = n.Log.Len()
	must(t, os.WriteFile(path, []byte(clusterIP("new", "10.96.0.22", allV4)), 0o644))
	n.synced(t, mark)
	wantEach(t, n.Client, "tcp", "10.96.0.22:80")
}

// Nothing good, but a kernel that serves: it goes on.
func TestNothingGoodLeavesTheKernelServing(t *testing.T) {
	n := newNode(t, "")
	n.start(t, web)
	want := n.read(t)
	n.Kill()
	must(t, os.RemoveAll(filepath.Join(n.Dir, "state/last-good")))
	must(t, n.Serve(web+"[services."))
	mark := n.Log.Len()
	must(t, n.Start())
	if _, err := n.Wait(mark, "nothing of this file is served until it is mended"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second) // the first sync waits for two
	if diff := lab.Diff(want, n.read(t)); diff != "" {
		t.Errorf("the kernel before and after a start with nothing good:\n%s", head(diff))
	}
	wantEach(t, n.Client, "tcp", "10.96.0.20:80")
	n.serve(t, clusterIP("web", "10.96.0.21", allV4))
	wantEach(t, n.Client, "tcp", "10.96.0.21:80")
}

// Without any last good content a broken file is exit code 3, and the kernel is
// as it was.
func TestBrokenFromTheFirstStart(t *testing.T) {
	n := newLonelyNode(t, "")
	before := n.read(t)
	must(t, n.Serve(web+"[services."))
	must(t, n.Start())
	<-n.Ended()
	if code := n.ExitCode(); code != 3 || !strings.Contains(n.Log.String(), "services.toml:") {
		t.Errorf("exit code %d", code)
	}
	if diff := lab.Diff(before, n.read(t)); diff != "" {
		t.Errorf("the kernel before and after:\n%s", head(diff))
	}
}
