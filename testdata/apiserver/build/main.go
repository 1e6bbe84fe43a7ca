// Command build compiles kube-apiserver and kube-proxy into the cache, unless they are there: what tests
// would else wait for, with their time limit running. It makes a link to kube-proxy in the folder that it is
// given: tests in a guest have no Go to ask for the cache.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/svcproxy/svcproxy/testdata/apiserver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := build(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func build(ctx context.Context, to string) error {
	dir, err := apiserver.Build(ctx)
	if err != nil {
		return err
	}
	link := filepath.Join(to, "kube-proxy")
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fmt.Println(dir)
	return errors.Join(os.MkdirAll(to, 0o755), os.Symlink(filepath.Join(dir, "kube-proxy"), link))
}
