package file

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// BenchmarkSaved measures the time from the save of a file of 100 services with 3 endpoints each to the table that it
// makes. A rename removes an endpoint each time, a write in place adds one.
func BenchmarkSaved(b *testing.B) {
	text := func(endpoints ...int) string {
		var all strings.Builder
		for i := range 100 {
			all.WriteString(web(i+1, 1, 2, 3))
		}
		return all.String() + strings.Replace(web(101, endpoints...), "96.0", "97.0", 1)
	}
	texts := []string{text(1, 2, 3), text(1, 2, 4)}
	for how, save := range map[string]func(path string, i int) error{
		"renamed over": func(path string, i int) error {
			if err := os.WriteFile(path+".new", []byte(texts[i%2]), 0o644); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		},
		"in place": func(path string, i int) error {
			return os.WriteFile(path, []byte(text([]int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}[:3+i]...)), 0o644)
		},
	} {
		b.Run(how, func(b *testing.B) {
			path := b.TempDir() + "/s.toml"
			if err := os.WriteFile(path, []byte(text(1, 2)), 0o644); err != nil {
				b.Fatal(err)
			}
			s, err := New(Options{Paths: []string{path}, Watch: true})
			if err != nil {
				b.Fatal(err)
			}
			emitted := make(chan time.Time, 10)
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			go s.Watch(ctx, func(t sources.Table, err error) { emitted <- time.Now() })
			<-emitted
			var took time.Duration
			n := 0
			for ; n < b.N; n++ {
				time.Sleep(2 * time.Second)
				begin := time.Now()
				if err := save(path, n); err != nil {
					b.Fatal(err)
				}
				took += (<-emitted).Sub(begin)
			}
			b.ReportMetric(float64(took.Microseconds())/float64(n)/1000, "ms/save")
		})
	}
}
