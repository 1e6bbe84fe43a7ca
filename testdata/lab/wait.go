package lab

import (
	"fmt"
	"time"
)

// Eventually asks again and again until the answer is nil, for at most limit. Between two questions there is twice the time
// that one took, 5 to 500 ms: a question that starts programs would else take the processor from what it waits for.
func Eventually(limit time.Duration, ask func() error) error {
	deadline := time.Now().Add(limit)
	for {
		began := time.Now()
		err := ask()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %v: %w", limit, err)
		}
		time.Sleep(min(max(2*time.Since(began), 5*time.Millisecond), 500*time.Millisecond))
	}
}
