// Command build compiles kube-apiserver into the cache, unless it is there: what tests would else wait
// for, with their time limit running.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/svcproxy/svcproxy/testdata/apiserver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	path, err := apiserver.Build(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}
