package status

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
)

// Top shows the connections and rates of a running svcproxy. If both files are a
// terminal it draws in place and reads keys. Otherwise it prints frames as plain
// text.
type Top struct {
	In, Out *os.File
	// Ask returns the status with the endpoints of the named services only.
	Ask    func(ctx context.Context, detail []string) (Status, error)
	Every  time.Duration // between two frames
	Frames int           // how many to print; 0 = until ctx ends or q is pressed
}

// Run shows frames until ctx ends, the last frame was printed or q was pressed.
// The first answer must be a status. If a later one is an error, a terminal shows
// it above the last status; without a terminal Run returns it.
func (t Top) Run(ctx context.Context) error {
	v := topView{endpoints: true, colours: screen.Colours(t.Out)}
	before, err := t.Ask(ctx, nil)
	if err == nil {
		before, err = t.Ask(ctx, v.shown(before, Status{}))
	}
	if err != nil {
		return err
	}
	if t.Frames > 0 || !screen.Terminal(t.In) || !screen.Terminal(t.Out) {
		v.width, _ = screen.Size(t.Out)
		return t.print(ctx, before, v)
	}
	cooked, err := term.MakeRaw(int(t.In.Fd()))
	if err != nil {
		return fmt.Errorf("preparing the terminal: %w", err)
	}
	defer term.Restore(int(t.In.Fd()), cooked)
	io.WriteString(t.Out, screen.Enter)
	defer io.WriteString(t.Out, screen.Leave)
	return t.live(ctx, before, v)
}

// print writes frames one below the other.
func (t Top) print(ctx context.Context, before Status, v topView) error {
	tick := time.NewTicker(t.Every)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now, err := t.Ask(ctx, v.shown(before, Status{}))
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		frame := v.frame(now, before)
		if n > 1 {
			frame = "\n" + frame
		}
		if _, err := io.WriteString(t.Out, frame); err != nil || n == t.Frames {
			return err
		}
		before = now
	}
}

// live draws each frame over the last one. It redraws at a tick, a key, or a new
// size of the terminal.
func (t Top) live(ctx context.Context, now Status, v topView) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	pressed := make(chan string)
	go readKeys(ctx, t.In, pressed)
	tick := time.NewTicker(t.Every)
	defer tick.Stop()
	var before Status
	for {
		v.width, v.height = screen.Size(t.Out)
		if _, err := io.WriteString(t.Out, screen.InPlace(v.frame(now, before), v.height)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-resized:
		case keys, open := <-pressed:
			var quit bool
			if v, quit = v.press(keys, v.height/2); quit || !open {
				return nil
			}
			v.first = min(v.first, max(0, len(now.Services)-1))
		case <-tick.C:
			next, err := t.Ask(ctx, v.shown(now, before))
			if v.away = err; err == nil {
				now, before = next, now
			}
		}
	}
}
