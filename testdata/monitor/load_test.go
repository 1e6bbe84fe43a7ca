package monitor

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// large is a table of 5,000 services with 10 endpoints each.
func large() sources.Table {
	services := make([]sources.Service, 5000)
	for i := range services {
		services[i] = service(i, fmt.Sprintf("service-%04d", i), 10)
	}
	return tableOf(services...)
}

// TestScrapeOfALargeTable: a scrape reads the counters once and the kernel's table not at all, and its size
// is bounded by the number of services.
func TestScrapeOfALargeTable(t *testing.T) {
	n := start(t, large())
	var text string
	for range 3 {
		// The loop's full checks go on meanwhile; what it read before is no scrape's doing.
		counters := n.meter.reads.Load()
		begin := time.Now()
		text = scrape(t, n, "")
		t.Logf("a scrape took %v", time.Since(begin).Round(time.Millisecond))
		if got := n.meter.reads.Load() - counters; got > 1 {
			t.Errorf("a scrape read the counters %d times, want at most once", got)
		}
	}
	series, services := 0, 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			series++
		}
		if strings.HasPrefix(line, "svcproxy_service_") {
			services++
		}
	}
	t.Logf("%d series of %d bytes, %d bytes compressed", series, len(text), compressed(t, "http://"+n.site.String()+"/metrics"))
	if services != 7*5000 {
		t.Errorf("%d series of services, want 7 of each", services)
	}
	if fixed := series - services; fixed > 800 {
		t.Errorf("%d series of other things, want at most 800", fixed)
	}
	if len(text) > 7<<19 {
		t.Errorf("%d bytes, want at most 3.5 MB", len(text))
	}
	t.Logf("with all endpoints %d bytes", len(scrape(t, n, "?endpoints=*")))
}

// compressed is the size of an answer as it is sent.
func compressed(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "gzip") // set by hand: it is not undone then
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gzip.NewReader(strings.NewReader(string(body))); err != nil {
		t.Errorf("%s is not compressed: %v", url, err)
	}
	return len(body)
}

// TestPageOfALargeTable: with 5,000 services the page is as small as with a few, and answers at once.
func TestPageOfALargeTable(t *testing.T) {
	n := start(t, large())
	b := open(t, "http://"+n.site.String()+"/")
	b.look(1280, 900, "light")
	b.awaitText("service-0000", "of 5000")
	if size := b.bytes(); size > 100<<10 {
		t.Errorf("the page took %.0f bytes to load, want at most 100 KB", size)
	} else {
		t.Logf("the page took %.0f bytes to load", size)
	}
	begin := time.Now()
	b.press("/", "e", "-", "4", "3", "2", "1")
	await(t, "the search", func() bool { return b.eval(`document.querySelectorAll("tr.service").length`) == "1" })
	t.Logf("a search took %v", time.Since(begin).Round(time.Millisecond))
	b.press("Escape")
	b.awaitText("1–50 of 5000")
	b.eval(`document.getElementById("next").click()`)
	b.awaitText("51–100 of 5000", "service-0050")
	if rows := b.eval(`document.querySelectorAll("tr.service").length`); rows != "50" {
		t.Errorf("%s rows, want 50", rows)
	}
	if said := b.complaints(); len(said) > 0 {
		t.Errorf("the browser reports %s", strings.Join(said, "\n"))
	}
}

// BenchmarkScrape is of 5,000 services with 10 endpoints each.
func BenchmarkScrape(b *testing.B) {
	n := start(b, large())
	for b.Loop() {
		scrape(b, n, "")
	}
}

// BenchmarkPage is one question of the page at 5,000 services with 10 endpoints each.
func BenchmarkPage(b *testing.B) {
	n := start(b, large())
	for b.Loop() {
		if c := code(n.site, "/status.json?limit=50&service=default/service-0001"); c != 200 {
			b.Fatal(c)
		}
	}
}
