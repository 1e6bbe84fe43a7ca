package file

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// onTmpfs runs f with a file system of its own at a directory. Only its thread sees the mount, and the thread ends with
// the goroutine.
func onTmpfs(t *testing.T, size string, f func(dir string)) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount")
	}
	dir := t.TempDir()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err := errors.Join(
			syscall.Unshare(syscall.CLONE_NEWNS|syscall.CLONE_FS),
			syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
			syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size)); err != nil {
			t.Error(err)
			return
		}
		f(dir)
	}()
	<-done
}

// On a full disk the earlier copy stays, and there is no part of the new one.
func TestFull(t *testing.T) {
	onTmpfs(t, "64k", func(dir string) {
		s := LastGood{dir}
		small, large := strings.Repeat("s", 1000), strings.Repeat("l", 100_000)
		if err := s.Put("a", []byte(small), noon); err != nil {
			t.Error(err)
		}
		if err := s.Put("a", []byte(large), noon.Add(time.Hour)); !errors.Is(err, syscall.ENOSPC) {
			t.Error(err)
		}
		want(t, s, "a", small, noon)
		if entries, err := os.ReadDir(dir); len(entries) != 1 || err != nil {
			t.Error(entries, err)
		}
		if err := s.Put("b", []byte(small), noon); err != nil { // there is room again
			t.Error(err)
		}
	})
}

func TestReadOnly(t *testing.T) {
	onTmpfs(t, "64k", func(dir string) {
		s := LastGood{dir}
		if err := s.Put("a", []byte("1"), noon); err != nil {
			t.Error(err)
		}
		if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
			t.Error(err)
			return
		}
		if err := s.Put("a", []byte("2"), noon); !errors.Is(err, syscall.EROFS) {
			t.Error(err)
		}
		if err := s.Put("a", []byte("1"), noon); err != nil {
			t.Error("nothing is to be written:", err)
		}
		if err := s.Delete("a"); !errors.Is(err, syscall.EROFS) {
			t.Error(err)
		}
		want(t, s, "a", "1", noon)
	})
}

// TestKilled kills a process that writes all the time, many times. The copy is always complete.
func TestKilled(t *testing.T) {
	if dir := os.Getenv("LASTGOOD_WRITE"); dir != "" {
		first := rand.IntN(1e7)
		for i := first; ; i++ {
			if err := (LastGood{dir}).Put("a", content(i), noon); err != nil {
				t.Fatal(err)
			}
			if i == first {
				fmt.Println("writing")
			}
		}
	}
	s := LastGood{t.TempDir()}
	found := map[int]bool{}
	for range 20 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), "LASTGOOD_WRITE="+s.Dir)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Duration(rand.Int64N(int64(10 * time.Millisecond)))) // the time is what this test is about
		cmd.Process.Kill()
		cmd.Wait()
		kept, _, ok, err := s.Get("a")
		if !ok || err != nil || len(kept) < 8 {
			t.Fatal(len(kept), ok, err)
		}
		var i int
		fmt.Sscanf(string(kept), "%08d", &i)
		if string(kept) != string(content(i)) {
			t.Fatalf("%d bytes of content %d", len(kept), i)
		}
		found[i] = true
	}
	t.Logf("%d kills found %d contents", 20, len(found))
}

// content differs for each i, also in length.
func content(i int) []byte {
	return fmt.Appendf(nil, "%08d\n%s", i, strings.Repeat("some content\n", 5000+i%1000))
}
