package monitor

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

// browser is a Chromium with one page, told what to do by the DevTools protocol over a pipe.
type browser struct {
	t       testing.TB
	to      io.Writer
	session string

	mu       sync.Mutex
	id       int
	answers  map[int]chan reply
	said     []string // errors and warnings that the page or the browser has reported
	received float64  // bytes that came over the network, headers included
}

// reply is a message from the browser: an answer, or an event.
type reply struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

type object map[string]any

// open starts a browser, which ends with the test, and opens a page in it.
func open(t testing.TB, url string) *browser {
	t.Helper()
	kerneltest.Need(t, kerneltest.Tool("chromium"))
	commands, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, answers, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	profile, err := os.MkdirTemp("", "monitor")
	if err != nil {
		t.Fatal(err)
	}
	// Without its sandbox, which root may not have: it opens a page of ours alone.
	cmd := exec.Command("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-extensions", "--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir="+profile, "about:blank")
	cmd.ExtraFiles = []*os.File{commands, answers} // 3 and 4 there
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	commands.Close()
	answers.Close()
	b := &browser{t: t, to: to, answers: make(map[int]chan reply)}
	ended := make(chan struct{})
	go func() { defer close(ended); b.listen(from) }()
	t.Cleanup(func() {
		b.send(0, "Browser.close", object{}) // and its helpers, which write to the profile until they end
		limit := time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
		cmd.Wait()
		limit.Stop()
		to.Close()
		<-ended
		from.Close()
		await(t, "the browser's profile is gone", func() bool { return os.RemoveAll(profile) == nil })
	})

	var target struct{ TargetID string }
	b.call("Target.createTarget", object{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", object{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Runtime", "Log", "Page", "Network"} {
		b.call(domain+".enable", object{}, nil)
	}
	b.call("Page.navigate", object{"url": url}, nil)
	return b
}

// call asks the browser and waits for its answer.
func (b *browser) call(method string, params object, result any) {
	b.t.Helper()
	answer := make(chan reply, 1)
	b.mu.Lock()
	b.id++
	id := b.id
	b.answers[id] = answer
	b.mu.Unlock()
	if err := b.send(id, method, params); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	select {
	case r := <-answer:
		if r.Error != nil {
			b.t.Fatalf("%s: %s", method, r.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(r.Result, result); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
		}
	case <-time.After(time.Minute):
		b.t.Fatalf("%s: no answer", method)
	}
}

// send sends a message; the browser as a whole is meant until there is a page.
func (b *browser) send(id int, method string, params object) error {
	message := object{"id": id, "method": method, "params": params}
	if b.session != "" && !strings.HasPrefix(method, "Browser.") {
		message["sessionId"] = b.session
	}
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	_, err = b.to.Write(append(text, 0))
	return err
}

// listen reads what the browser says until it ends.
func (b *browser) listen(from io.Reader) {
	for in := bufio.NewReader(from); ; {
		text, err := in.ReadBytes(0)
		if err != nil {
			return
		}
		var r reply
		if json.Unmarshal(text[:len(text)-1], &r) != nil {
			continue
		}
		b.mu.Lock()
		if answer := b.answers[r.ID]; answer != nil {
			delete(b.answers, r.ID)
			answer <- r
		} else {
			b.hear(r)
		}
		b.mu.Unlock()
	}
}

// hear keeps what is worth knowing of an event. b.mu is held.
func (b *browser) hear(r reply) {
	var p struct {
		Type              string
		EncodedDataLength float64
		Entry             struct{ Level, Text, URL string }
	}
	json.Unmarshal(r.Params, &p)
	switch r.Method {
	case "Runtime.exceptionThrown":
		b.said = append(b.said, string(r.Params))
	case "Runtime.consoleAPICalled":
		if p.Type == "error" || p.Type == "warning" || p.Type == "assert" {
			b.said = append(b.said, string(r.Params))
		}
	case "Log.entryAdded":
		if p.Entry.Level == "error" || p.Entry.Level == "warning" {
			b.said = append(b.said, fmt.Sprint(p.Entry))
		}
	case "Network.loadingFinished":
		b.received += p.EncodedDataLength
	}
}

// complaints are what the page and the browser have reported.
func (b *browser) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.said...)
}

func (b *browser) bytes() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.received
}

// eval gives the value of an expression in the page, as text.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails *struct{ Exception struct{ Description string } }
	}
	b.call("Runtime.evaluate", object{"expression": expression, "returnByValue": true, "awaitPromise": true}, &r)
	if r.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, r.ExceptionDetails.Exception.Description)
	}
	return fmt.Sprint(r.Result.Value)
}

// text is what the page shows.
func (b *browser) text() string { return b.eval(`document.body ? document.body.innerText : ""`) }

func (b *browser) awaitText(parts ...string) {
	b.t.Helper()
	for _, part := range parts {
		await(b.t, "the page shows "+part, func() bool { return strings.Contains(b.text(), part) })
	}
}

// openRow goes from the first row to that of a service by keyboard, and opens or closes it. Trouble is first, so
// where a row is depends on its state.
func (b *browser) openRow(service string) {
	b.t.Helper()
	rows := make([]string, 10)
	for i := range rows {
		rows[i] = "k"
	}
	b.press(rows...)
	for range rows {
		if b.eval(`document.activeElement.textContent`) == service {
			b.press("Enter")
			return
		}
		b.press("j")
	}
	b.t.Fatalf("the keyboard finds no row of %s", service)
}

// press presses keys, by their names in the DOM: "Enter", "/".
func (b *browser) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		down := object{"type": "keyDown", "key": key}
		if len(key) == 1 {
			down["text"] = key
		}
		if key == "Enter" {
			down["text"], down["windowsVirtualKeyCode"] = "\r", 13
		}
		if key == "Tab" {
			down["windowsVirtualKeyCode"] = 9
		}
		b.call("Input.dispatchKeyEvent", down, nil)
		b.call("Input.dispatchKeyEvent", object{"type": "keyUp", "key": key}, nil)
	}
}

// look has the page shown at a width in a colour scheme: "light" or "dark".
func (b *browser) look(width, height int, scheme string) {
	b.t.Helper()
	b.call("Emulation.setEmulatedMedia", object{"features": []object{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	b.call("Emulation.setDeviceMetricsOverride", object{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
}

// screenshot writes the whole page as PNG, with at most 256 colours: a third of the bytes.
func (b *browser) screenshot(file string) {
	b.t.Helper()
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", object{"format": "png", "captureBeyondViewport": true}, &shot)
	full, err := png.Decode(base64.NewDecoder(base64.StdEncoding, strings.NewReader(shot.Data)))
	must(b.t, err)
	out, err := os.Create(file)
	must(b.t, err)
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(out, fewColours(full))
	must(b.t, errors.Join(err, out.Close()))
}

// fewColours returns img with its 256 most frequent colours; each other pixel has the nearest of these.
func fewColours(img image.Image) *image.Paletted {
	count, bounds := map[color.Color]int{}, img.Bounds()
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			count[img.At(x, y)]++
		}
	}
	frequent := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return count[b] - count[a] })
	palette := color.Palette(frequent[:min(len(frequent), 256)])
	index := map[color.Color]uint8{}
	for c := range count {
		index[c] = uint8(palette.Index(c))
	}
	few := image.NewPaletted(bounds, palette)
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			few.SetColorIndex(x, y, index[img.At(x, y)])
		}
	}
	return few
}
