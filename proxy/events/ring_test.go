package events

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestRingForgetsTheOldest(t *testing.T) {
	var r Ring
	if list, lost, _ := r.After(7); len(list) != 0 || lost != 0 {
		t.Errorf("empty: %v, lost %d", list, lost)
	}
	for i := range Size + 5 {
		r.Add(Event{Text: fmt.Sprint(i + 1)})
	}
	for _, c := range []struct {
		after       uint64
		first       string
		count, lost int
	}{
		{0, "6", Size, 5},
		{3, "6", Size, 2},
		{5, "6", Size, 0},
		{6, "7", Size - 1, 0},
		{Size + 4, fmt.Sprint(Size + 5), 1, 0},
		{Size + 5, "", 0, 0},
		{Size + 99, "6", Size, 5}, // a number of an earlier run
	} {
		list, lost, _ := r.After(c.after)
		if len(list) != c.count || lost != uint64(c.lost) || c.count > 0 && list[0].Text != c.first {
			t.Errorf("after %d: %d events, lost %d; want %d from %s, lost %d", c.after, len(list), lost, c.count, c.first, c.lost)
		}
		for i, e := range list {
			if e.Text != fmt.Sprint(e.Seq) || i > 0 && e.Seq != list[i-1].Seq+1 {
				t.Fatalf("after %d: event %d is %+v", c.after, i, e)
			}
		}
	}
}

func TestRingWakesReaders(t *testing.T) {
	var r Ring
	_, _, more := r.After(0)
	select {
	case <-more:
		t.Fatal("woken up before there was an event")
	default:
	}
	r.Add(Event{Text: "one"}, Event{Text: "two"})
	<-more
	list, _, more := r.After(0)
	if len(list) != 2 {
		t.Errorf("%d events, want 2", len(list))
	}
	select {
	case <-more:
		t.Error("woken up for an event that was already read")
	default:
	}
}

func TestEventsAreBounded(t *testing.T) {
	var r Ring
	e := Event{Text: strings.Repeat("é", maxText), More: 1}
	for i := range 3 * maxServices {
		e.Services = append(e.Services, fmt.Sprintf("default/s%d", i))
	}
	r.Add(e)
	list, _, _ := r.After(0)
	got := list[0]
	if len(got.Text) > maxText+len("…") || !utf8.ValidString(got.Text) {
		t.Errorf("text of %d bytes", len(got.Text))
	}
	if len(got.Services) != maxServices || got.More != 1+2*maxServices {
		t.Errorf("%d services and %d more", len(got.Services), got.More)
	}
}
