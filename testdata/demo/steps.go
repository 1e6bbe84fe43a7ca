package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// configuration looks at the whole kernel every second, for the spectator's sake.
const configuration = `clusterCIDR = "10.2.0.0/16"
ipvs.scheduler = "wrr"
ipvs.syncPeriod = "1s"`

const web = `[services.web]
type = "LoadBalancer"
clusterIP = "10.96.0.20"
loadBalancerIPs = ["198.51.100.80"]
ports = [{ port = 80, targetPort = 8080, nodePort = 30080 }]
endpoints = [
  { address = "10.2.1.10", weight = 1 },
  { address = "10.2.2.10", weight = 2 },
  { address = "10.2.3.10", weight = 3 },
]
`

const shop = `
[services.shop]
clusterIP = "10.96.0.21"
ports = [{ port = 80, targetPort = 8080 }]
endpoints = ["10.2.1.10", "10.2.2.10"]
`

var (
	webVIP  = netip.MustParseAddrPort("198.51.100.80:80")
	shopVIP = netip.MustParseAddrPort("10.96.0.21:80")
	cartVIP = netip.MustParseAddrPort("10.96.0.22:80")
)

// attempt is how long to wait before asking again. TCP repeats a packet that
// came too early only after 1 s, and that second is not svcproxy's.
const attempt = 100 * time.Millisecond

// patience is how long anything may take in an emulated machine whose host has other work.
const patience = time.Minute

func (d *demo) serveFile() (string, error) {
	d.say("services.toml:")
	d.show(strings.Split(strings.TrimSpace(web), "\n")...)
	if err := d.proxy.Serve(web); err != nil {
		return "", err
	}
	start := time.Now()
	if err := d.proxy.Start(); err != nil {
		return "", err
	}
	answer, err := d.answered(webVIP)
	if err != nil {
		return "", err
	}
	took := time.Since(start)
	d.say("ipvsadm -Ln on the node:")
	out, err := d.Node.Run("ipvsadm", "-Ln")
	d.show(strings.Split(strings.TrimSpace(out), "\n")...)
	d.say("GET http://%s from the client: %s", webVIP, answer.Backend)
	return fmt.Sprintf("served %s after the start", ms(took)), err
}

// answered asks over HTTP until there is an answer.
func (d *demo) answered(vip netip.AddrPort) (a lab.Answer, err error) {
	client := d.Client.HTTP(attempt)
	err = lab.Eventually(patience, func() error {
		a, err = lab.Get(client, vip)
		return err
	})
	return a, err
}

func (d *demo) spread() (string, error) {
	const requests = 300
	client, who := d.Client.HTTP(lab.AskLimit), map[string]int{}
	for i := range requests {
		a, err := lab.Get(client, webVIP)
		if err != nil {
			return "", fmt.Errorf("request %d: %w", i, err)
		}
		who[a.Backend]++
	}
	var seen []string
	var errs []error
	for i, b := range d.Backends {
		want := float64(requests) * float64(i+1) / 6 // weights 1, 2, 3
		got := who[b.Name]
		if math.Abs(float64(got)-want) > 0.05*want {
			errs = append(errs, fmt.Errorf("%s answered %d requests, want %v", b.Name, got, want))
		}
		d.say("%s  weight %d  %3d  %s", b.Name, i+1, got, strings.Repeat("#", got/3))
		seen = append(seen, fmt.Sprint(got))
	}
	if len(who) != len(d.Backends) {
		errs = append(errs, fmt.Errorf("answers came from %v", slices.Sorted(maps.Keys(who))))
	}
	return strings.Join(seen, ", "), errors.Join(errs...)
}

func (d *demo) change() (string, error) {
	if _, err := lab.Get(d.Client.HTTP(lab.AskLimit), shopVIP); err == nil {
		return "", fmt.Errorf("%s is served before it is in the file", shopVIP)
	}
	d.say("added to services.toml:")
	d.show(strings.Split(strings.TrimSpace(shop), "\n")...)
	start := time.Now()
	if err := d.proxy.Serve(web + shop); err != nil {
		return "", err
	}
	answer, err := d.answered(shopVIP)
	if err != nil {
		return "", err
	}
	took := time.Since(start)
	d.say("GET http://%s from the client: %s, %s after the file was saved", shopVIP, answer.Backend, ms(took))
	if took > 5*time.Second {
		return "", fmt.Errorf("it took %v", took)
	}
	return ms(took) + " from saving to serving", nil
}

func (d *demo) breakFile() (string, error) {
	broken := web + strings.Replace(shop, "endpoints", "endponts", 1)
	place := fmt.Sprintf("services.toml:%d", 1+strings.Count(broken[:strings.Index(broken, "endponts")], "\n"))
	mark := d.proxy.Log.Len()
	var line string
	traffic := d.browse(webVIP, shopVIP)
	err := inOrder(
		func() error { return d.proxy.Serve(broken) },
		func() (err error) { line, err = d.proxy.Wait(mark, "endponts"); return err },
		func() error { return traffic.more(20) },
	)
	count, failed := traffic.stop()
	if err := errors.Join(err, failed); err != nil {
		return "", err
	}
	d.say("\"endponts\" was written for \"endpoints\"; svcproxy's log:")
	d.show(strings.TrimSpace(line))
	if !strings.Contains(line, place) {
		return "", fmt.Errorf("the refusal does not say %s", place)
	}
	d.say("%d requests to both services meanwhile, none failed", count)
	return fmt.Sprintf("refused at %s; %d requests, 0 failed", place, count), d.repair()
}

// inOrder does one thing after the other until one fails.
func inOrder(things ...func() error) error {
	for _, do := range things {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// repair saves a good file and waits until svcproxy has taken it, which one more
// service shows.
func (d *demo) repair() error {
	cart := strings.NewReplacer("shop", "cart", "10.96.0.21", "10.96.0.22").Replace(shop)
	if err := d.proxy.Serve(web + shop + cart); err != nil {
		return err
	}
	_, err := d.answered(cartVIP)
	return err
}

func (d *demo) kill() (string, error) {
	connections := []netip.AddrPort{webVIP, shopVIP, webVIP, shopVIP}
	traffic, err := d.browseOn(connections...)
	if err != nil {
		return "", err
	}
	err = inOrder(
		func() error { return traffic.more(20) },
		func() error { d.proxy.Kill(); d.say("svcproxy is killed"); return nil },
		func() error { return traffic.more(40) },
		d.proxyAgain,
		func() error { return traffic.more(20) },
	)
	count, failed := traffic.stop()
	if err := errors.Join(err, failed); err != nil {
		return "", err
	}
	d.say("%d requests on %d connections that lived all the time, none failed", count, len(connections))
	return fmt.Sprintf("%d requests on %d connections, 0 failed", count, len(connections)), nil
}

// proxyAgain starts svcproxy and waits until it is at work. It removes a service
// from the file before the start, and waits until that is gone from the kernel.
func (d *demo) proxyAgain() error {
	d.say("svcproxy is started again, with one service less in its file")
	return inOrder(
		func() error { return d.proxy.Serve(web + shop) },
		func() error { return d.proxy.Start() },
		func() error { return d.gone(cartVIP) },
	)
}

// gone waits until the kernel has no such virtual server.
func (d *demo) gone(vip netip.AddrPort) error {
	return lab.Eventually(patience, func() error {
		lines, err := d.Node.Virtuals()
		if err == nil && slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, vip.String()) }) {
			err = fmt.Errorf("%s is still there", vip)
		}
		return err
	})
}

func (d *demo) drift() (string, error) {
	whole, err := d.Node.Virtuals()
	if err != nil {
		return "", err
	}
	mark := d.proxy.Log.Len()
	start := time.Now()
	if _, err := d.Node.Run("ipvsadm", "-C"); err != nil {
		return "", err
	}
	d.say("ipvsadm -C has deleted %d lines; somebody else's too, who puts them back", len(whole))
	if err := d.plantForeign(); err != nil {
		return "", err
	}
	for _, vip := range []netip.AddrPort{webVIP, shopVIP} {
		if _, err := d.answered(vip); err != nil {
			return "", err
		}
	}
	took := time.Since(start)
	if _, err := d.proxy.Wait(mark, "drift"); err != nil {
		return "", err
	}
	have, err := d.Node.Virtuals()
	if err == nil && !slices.Equal(whole, have) {
		err = fmt.Errorf("before: %q, now: %q", whole, have)
	}
	d.say("both services answer again %s later, checks are 1 s apart", ms(took))
	return "healed after " + ms(took), err
}

func (d *demo) second() (string, error) {
	dir, err := os.MkdirTemp("", "svcproxy-demo-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	other, err := lab.NewProxy(d.Node, d.proxy.Binary, dir, "")
	if err == nil {
		err = other.Serve("")
	}
	if err != nil {
		return "", err
	}
	whole, err := d.Node.Read()
	if err != nil {
		return "", err
	}
	for _, command := range []string{"run", "cleanup"} {
		out, code, err := other.Command(command)
		if err != nil {
			return "", err
		}
		d.say("svcproxy %s:", command)
		d.show(strings.Split(strings.TrimSpace(out), "\n")...)
		if code == 0 || !strings.Contains(out, fmt.Sprintf("(pid %d)", d.proxy.Pid())) {
			return "", fmt.Errorf("exit code %d", code)
		}
	}
	after, err := d.Node.Read()
	if diff := lab.Diff(whole, after); err == nil && diff != "" {
		err = fmt.Errorf("changed:\n%s", diff)
	}
	return "both name the one that runs; nothing changed", err
}

func (d *demo) cleanUp() (string, error) {
	if err := d.proxy.Stop(); err != nil {
		return "", err
	}
	if _, err := lab.Get(d.Client.HTTP(lab.AskLimit), webVIP); err != nil {
		return "", fmt.Errorf("stopped, the kernel should go on serving: %w", err)
	}
	d.say("stopped; the kernel goes on serving")
	out, code, err := d.proxy.Command("cleanup")
	if err == nil && code != 0 {
		err = fmt.Errorf("svcproxy cleanup: exit code %d: %s", code, out)
	}
	if err != nil {
		return "", err
	}
	after, err := d.Node.Read()
	if err != nil {
		return "", err
	}
	d.say("ipvsadm -Sn after svcproxy cleanup:")
	d.show(after.Virtuals...)
	if !slices.Equal(d.before.Virtuals, after.Virtuals) {
		return "", errors.New("these are not the virtual servers from before")
	}
	if len(after.Sets) > 0 || slices.ContainsFunc(after.Lines(), func(l string) bool { return strings.Contains(strings.ToLower(l), "kube") }) {
		return "", fmt.Errorf("left behind:\n%s", lab.Diff(d.before, after))
	}
	return fmt.Sprintf("%d virtual server, not ours; no set, chain or address of ours", len(d.before.Virtuals)/2), nil
}

func (d *demo) plantForeign() error {
	_, err := d.Node.Feed("-A -t 192.0.2.1:9999 -s wlc\n-a -t 192.0.2.1:9999 -r 10.2.1.10:8080 -m -w 3\n", "ipvsadm", "-R")
	return err
}

func ms(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }
