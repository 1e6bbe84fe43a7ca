package top

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/svcproxy/svcproxy/proxy/screen"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// Top shows a running svcproxy: in place and with keys where both files are a
// terminal, else frame by frame as plain text.
type Top struct {
	In, Out *os.File
	// Ask gives the status, with the endpoints of the named services alone.
	Ask    func(ctx context.Context, detail []string) (status.Status, error)
	Every  time.Duration // between two frames
	Frames int           // how many; 0 = until ctx ends or q is pressed
	View   View          // to begin with; size and colours are the terminal's
}

// Run shows until it is over. The first reading must succeed; later on a daemon
// that does not answer is shown to be away on a terminal, and an error elsewhere.
func (t Top) Run(ctx context.Context) error {
	before, err := t.Ask(ctx, nil)
	if err == nil && t.View.Endpoints {
		before, err = t.Ask(ctx, Shown(before, status.Status{}, t.View))
	}
	if err != nil {
		return err
	}
	t.View.Colours = screen.Colours(t.Out)
	if t.Frames > 0 || !screen.Terminal(t.In) || !screen.Terminal(t.Out) {
		t.View.Width, _ = screen.Size(t.Out)
		return t.print(ctx, before)
	}
	cooked, err := term.MakeRaw(int(t.In.Fd()))
	if err != nil {
		return fmt.Errorf("preparing the terminal: %w", err)
	}
	defer term.Restore(int(t.In.Fd()), cooked)
	io.WriteString(t.Out, screen.Enter)
	defer io.WriteString(t.Out, screen.Leave)
	return t.live(ctx, before)
}

// print writes frames one below the other.
func (t Top) print(ctx context.Context, before status.Status) error {
	tick := time.NewTicker(t.Every)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now, err := t.Ask(ctx, Shown(before, status.Status{}, t.View))
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		frame := Frame(now, before, t.View)
		if n > 1 {
			frame = "\n" + frame
		}
		if _, err := io.WriteString(t.Out, frame); err != nil || n == t.Frames {
			return err
		}
		before = now
	}
}

// live draws frame over frame, and follows keys and the terminal's size.
func (t Top) live(ctx context.Context, now status.Status) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	pressed := make(chan string)
	go read(ctx, t.In, pressed)
	tick := time.NewTicker(t.Every)
	defer tick.Stop()
	var before status.Status
	v := t.View
	for {
		v.Width, v.Height = screen.Size(t.Out)
		if _, err := io.WriteString(t.Out, screen.InPlace(Frame(now, before, v), v.Height)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-resized:
		case keys, open := <-pressed:
			var quit bool
			if v, quit = v.press(keys, v.Height/2); quit || !open {
				return nil
			}
			v.First = min(v.First, max(0, len(now.Services)-1))
		case <-tick.C:
			next, err := t.Ask(ctx, Shown(now, before, v))
			if v.Away = err; err == nil {
				now, before = next, now
			}
		}
	}
}

// read hands over what is typed until ctx ends or there is no more. A read that
// waits for a key is not interrupted: it ends with the process.
func read(ctx context.Context, in io.Reader, pressed chan<- string) {
	defer close(pressed)
	buf := make([]byte, 64)
	for {
		n, err := in.Read(buf)
		if err != nil {
			return
		}
		select {
		case pressed <- string(buf[:n]):
		case <-ctx.Done():
			return
		}
	}
}
