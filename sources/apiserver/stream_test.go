//go:build !noapiserver

package apiserver

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// TestOverdueWatch: a watch that the API server does not end in time is ended here, and the next one begins at once.
func TestOverdueWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCatalog("")
		f := &follower{kind: kinds(c, "")[0], catalog: c}
		f.pace = 3
		seconds := int64(300)
		from := watch.NewFake()
		began := time.Now()
		cancelled := make(chan struct{})
		w := f.observe(from, func() { close(cancelled) }, &meter{limit: eventLimit}, longest(metav1.ListOptions{TimeoutSeconds: &seconds}))
		go from.Add(&corev1.Service{})
		if e := <-w.ResultChan(); e.Type != watch.Added {
			t.Error(e)
		}
		if e, more := <-w.ResultChan(); more {
			t.Error(e)
		}
		if took := time.Since(began); took != 330*time.Second {
			t.Errorf("ended after %s, want 5m30s", took)
		}
		if !from.IsStopped() || f.toWait() || f.pace != 0 {
			t.Errorf("stopped %t, pause %t, pace %d", from.IsStopped(), f.toWait(), f.pace)
		}
		w.Stop()
		<-cancelled
	})
}
