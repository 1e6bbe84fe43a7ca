package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRedirectTestBinarysFiles(t *testing.T) {
	args := []string{"-test.v=true", "-test.timeout=90s", "-test.coverprofile=c.out", "-test.outputdir=/repo", "--test.trace=/abs/t", "-other=x", "word"}
	got, fetches, limit := redirect(args, "/repo/pkg", "/out")
	want := []string{"-test.v=true", "-test.timeout=90s", "-test.coverprofile=/out/coverprofile", "-test.trace=/out/trace", "-other=x", "word"}
	if !slices.Equal(got, want) {
		t.Errorf("arguments: got %q, want %q", got, want)
	}
	if want := []fetch{{"coverprofile", "/repo/c.out"}, {"trace", "/abs/t"}}; !slices.Equal(fetches, want) {
		t.Errorf("fetches: got %v, want %v", fetches, want)
	}
	if limit != 90*time.Second {
		t.Errorf("limit: got %v", limit)
	}
}

func TestCarryBringsFilesHome(t *testing.T) {
	out, home := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(out, "results/deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out, "results/deep/file"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := carry(out, []fetch{{"results", filepath.Join(home, "r")}, {"never-written", filepath.Join(home, "n")}})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(home, "r/deep/file")); err != nil || string(b) != "x" {
		t.Errorf("got %q, %v", b, err)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("PATH", "/opt/x:/usr/bin")
	t.Setenv("SVCPROXY_GUEST_WHERE", "qemu")
	got := environment("/out")
	for _, want := range []string{"SVCPROXY_GUEST=1", "SVCPROXY_GUEST_OUT=/out", "PATH=/opt/x:/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s in %q", want, got)
		}
	}
	if n := len(slices.DeleteFunc(got, func(v string) bool { return !strings.HasPrefix(v, "PATH=") })); n != 1 {
		t.Errorf("PATH appears %d times", n)
	}
}

func TestMachineArguments(t *testing.T) {
	m := machine{CPUs: 2, Memory: 512, Append: "last", QEMU: "-nic user"}
	args := strings.Join(m.arguments(kernel{Dir: "/k"}, emulations["amd64"], "/d"), " ")
	for _, want := range []string{"-smp 2 -m 512", "-kernel /k/vmlinux", " last -fsdev local,id=root,path=/,security_model=none,multidevs=remap,readonly=on", "-nic user"} {
		if !strings.Contains(args, want) {
			t.Errorf("no %q in %s", want, args)
		}
	}
	if strings.Contains(args, "virtio-net") {
		t.Errorf("a network that nobody asked for: %s", args)
	}
	m.Icount = true
	if args := strings.Join(m.arguments(kernel{Dir: "/k"}, emulations["amd64"], "/d"), " "); !strings.Contains(args, "-smp 1 ") || !strings.Contains(args, "-icount shift=0") {
		t.Errorf("icount: %s", args)
	}
}

func TestObituary(t *testing.T) {
	err := obituary(nil, strings.Repeat("x", 9000)+"\r\nKernel panic - not syncing: Fatal exception\r\nend\r\n")
	for _, want := range []string{"kernel panic in the guest: Fatal exception: the guest ended without an exit code\n", "\nend\n---"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if len(err.Error()) > 7000 {
		t.Errorf("%d bytes of console", len(err.Error()))
	}
	cause := errors.New("qemu: no memory")
	if err := obituary(cause, ""); !errors.Is(err, cause) {
		t.Errorf("cause is lost: %v", err)
	}
}
