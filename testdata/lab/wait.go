package lab

import (
	"fmt"
	"time"
)

// Eventually asks again and again until the answer is nil, for at most limit.
func Eventually(limit time.Duration, ask func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := ask()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %v: %w", limit, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
