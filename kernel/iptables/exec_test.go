package iptables

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Found keeps the paths of its call, whatever PATH says later.
func TestFoundRunsWhatItFound(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	for dir, says := range map[string]string{first: "first", second: "second"} {
		if err := os.WriteFile(filepath.Join(dir, "iptables"), []byte("#!/bin/sh\necho "+says+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", first)
	found := Found().run
	t.Setenv("PATH", second)
	if out, err := found(t.Context(), "", "iptables"); out != "first\n" || err != nil {
		t.Errorf("got %q, %v", out, err)
	}
	if out, err := run(t.Context(), "", "iptables"); out != "second\n" || err != nil {
		t.Errorf("run: got %q, %v", out, err)
	}
	if _, err := found(t.Context(), "", "iptables-nonsense"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("got %v, want %v", err, exec.ErrNotFound)
	}
}
