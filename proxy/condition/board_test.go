package condition

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A condition keeps its time while its text changes, and is told once when it begins and once when it ends.
func TestBoard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Board
		b.Set(Unkept, "early", "the disk is full", "") // before anything follows
		var told []string
		b.Follow(func(c Condition, began bool) {
			told = append(told, fmt.Sprint(c, " ", began, " ", len(b.List())))
		})
		start := time.Now()
		b.Set(Unkept, "late", "the disk is full", "df")
		time.Sleep(time.Second)
		b.Set(Unkept, "late", "read-only", "mount")
		b.Set(Unkept, "late", "read-only", "mount")
		b.Set(OtherRules, "", "nearly full", "")
		list := b.List()
		if len(list) != 3 || list[0].Kind != OtherRules || list[0].Hint == "" || list[1].Subject != "early" || list[2].Text != "read-only" ||
			list[2].Hint != "mount" || !list[2].Since.Equal(start) {
			t.Errorf("%+v", list)
		}
		b.Set(Unkept, "late", "", "")
		b.Set(Unkept, "never", "", "")
		want := []string{
			"early: the disk is full true 1", "late: the disk is full true 2", "nearly full true 3", "late: read-only false 2",
		}
		if !slices.Equal(told, want) {
			t.Errorf("told %q", told)
		}
		b.SetAll(Unkept, []Condition{{Subject: "a", Text: "x"}, {Subject: "b", Text: "y"}})
		if got := Lines(b.List(), Condition.String); !slices.Equal(got, []string{"nearly full", "a: x", "b: y"}) {
			t.Errorf("%q", got)
		}
		var none *Board
		none.Set(Unkept, "a", "b", "c")
		none.SetAll(Unkept, nil)
		if none.List() != nil {
			t.Error("a nil board keeps something")
		}
	})
}

// Many conditions of one kind: all are counted, few are told, listed and shown.
func TestManyConditions(t *testing.T) {
	var b Board
	told := map[bool]int{}
	b.Follow(func(_ Condition, began bool) { told[began]++ })
	const n = 5000
	b.Set(Displaced, "", "x", "")
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { b.Set(Unkept, fmt.Sprintf("file%04d", i), "x", "") })
	}
	group.Wait()
	list := b.List()
	if len(list) != maxListed+1 || Count(list, Unkept) != n || Count(list, Displaced) != 1 || told[true] != maxTold+1 {
		t.Errorf("%d listed, %d counted, %v told", len(list), Count(list, Unkept), told)
	}
	lines := Lines(list, Condition.String)
	if len(lines) != 5 || lines[0] != "x" || lines[3] != "file0002: x" || !strings.HasPrefix(lines[4], "and 4997 more (unkept): ") {
		t.Errorf("%q", lines)
	}
	b.SetAll(Unkept, nil)
	if len(b.List()) != 1 || told[false] != maxTold {
		t.Errorf("%v, %v", b.List(), told)
	}
}

func TestKinds(t *testing.T) {
	for _, r := range kinds {
		if r.meaning == "" || r.todo == "" || r.kind == "" {
			t.Errorf("%+v says too little", r)
		}
		if strings.HasPrefix(r.todo, "svcproxy ") { // which only shows what the condition says
			t.Errorf("%s: %q mends nothing", r.kind, r.todo)
		}
	}
}
