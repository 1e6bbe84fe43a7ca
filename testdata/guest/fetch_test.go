package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSourcesListTakesTheMachinesOwn(t *testing.T) {
	const targets = `http://mirror.example/debian/ bookworm main
http://mirror.example/debian/ bookworm contrib
http://mirror.example/debian/ bookworm-updates main
http://security.example/debian-security/ bookworm-security main
https://other.example/ nodistro main
`
	for _, test := range []struct {
		suite, targets string
		want           []string // URI and suite by line
	}{
		{"bookworm", targets, []string{
			"http://mirror.example/debian/ bookworm", "http://mirror.example/debian/ bookworm-updates",
			"http://security.example/debian-security/ bookworm-security"}},
		{"bookworm-backports", targets, []string{"http://mirror.example/debian/ bookworm-backports"}},
		{"trixie", targets, []string{"http://mirror.example/debian/ trixie"}},
		{"bookworm", "http://ubuntu.example/ubuntu/ noble main\n", nil},
		{"bookworm", "", nil},
	} {
		list, err := sourcesList(test.targets, test.suite)
		var got []string
		for line := range strings.Lines(list) {
			_, line, _ = strings.Cut(line, "http")
			got = append(got, "http"+strings.TrimSuffix(line, " main\n"))
		}
		if !slices.Equal(got, test.want) || (err != nil) != (test.want == nil) {
			t.Errorf("%s: got %q, %v; want %q", test.suite, got, err, test.want)
		}
	}
}

// bzImage makes the parts of one that payload looks at.
func bzImage(packed []byte) []byte {
	const sects, offset = 3, 0x40
	image := make([]byte, (sects+1)*512+offset, (sects+1)*512+offset+len(packed))
	image[setupSectsAt] = sects
	copy(image[headerMagicAt:], "HdrS")
	binary.LittleEndian.PutUint32(image[payloadOffsetAt:], offset)
	binary.LittleEndian.PutUint32(image[payloadLengthAt:], uint32(len(packed)))
	return append(image, packed...)
}

// arm64 is the beginning of such a kernel.
var arm64 = "MZ" + strings.Repeat("\x00", 54) + "ARM\x64\x00\x00\x00\x00"

// zboot makes the parts of an EFI program with a packed kernel that payload looks at.
func zboot(packed []byte, length int) []byte {
	image := make([]byte, 128, 128+len(packed))
	copy(image, "MZ\x00\x00zimg")
	binary.LittleEndian.PutUint32(image[8:], 128)
	binary.LittleEndian.PutUint32(image[12:], uint32(length))
	return append(image, packed...)
}

func TestExtractKernel(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	w.Write([]byte("\x7fELF the kernel"))
	w.Close()
	packed.WriteString("size") // as the kernel's build appends it
	whole := bzImage(packed.Bytes())

	for _, test := range []struct {
		name  string
		image []byte
		want  string // in the error; "" is success
	}{
		{"whole", whole, ""},
		{"cut", whole[:len(whole)-9], "payload ends at"},
		{"no kernel", make([]byte, 4096), "neither a bzImage nor an arm64 kernel"},
		{"empty", nil, "neither a bzImage nor an arm64 kernel"},
		{"arm64", []byte(arm64), ""},
		{"zboot", zboot(packed.Bytes(), packed.Len()), ""},
		{"cut zboot", zboot(packed.Bytes(), packed.Len()+1), "payload ends at"},
		{"unknown", bzImage([]byte("LZO? no")), "packed in an unknown way"},
	} {
		path := filepath.Join(t.TempDir(), "vmlinuz")
		if err := os.WriteFile(path, test.image, 0o644); err != nil {
			t.Fatal(err)
		}
		elf, err := extractKernel(t.Context(), path)
		if test.want == "" && (err != nil || string(elf) != "\x7fELF the kernel" && string(elf) != arm64) {
			t.Errorf("%s: %q, %v", test.name, elf, err)
		}
		if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: error %v, want %q", test.name, err, test.want)
		}
	}
}

const modulesDep = `kernel/net/netfilter/ipvs/ip_vs.ko: kernel/net/netfilter/nf_conntrack.ko kernel/lib/libcrc32c.ko
kernel/net/netfilter/nf_conntrack.ko: kernel/lib/libcrc32c.ko
kernel/lib/libcrc32c.ko:
kernel/drivers/net/dummy.ko.xz:
kernel/drivers/net/wireless/ath.ko: kernel/net/wireless/cfg80211.ko
kernel/net/wireless/cfg80211.ko:
kernel/net/sched/act-x.ko: kernel/drivers/odd.ko
kernel/drivers/odd.ko:
`

func TestModules(t *testing.T) {
	d, err := parseDependencies(strings.NewReader(modulesDep))
	if err != nil {
		t.Fatal(err)
	}
	got := d.order([]string{"dummy", "builtin", "ip_vs", "act_x"})
	want := []string{
		"kernel/drivers/net/dummy.ko.xz",
		"kernel/lib/libcrc32c.ko", "kernel/net/netfilter/nf_conntrack.ko", "kernel/net/netfilter/ipvs/ip_vs.ko",
		"kernel/drivers/odd.ko", "kernel/net/sched/act-x.ko",
	}
	if !slices.Equal(got, want) {
		t.Errorf("order: got %q, want %q", got, want)
	}

	got = d.keep([]string{"net/sched/", "net/netfilter/", "drivers/net/dummy.ko"})
	slices.Sort(want) // the same modules: what a kept one needs stays with it
	if !slices.Equal(got, want) {
		t.Errorf("keep: got %q, want %q", got, want)
	}

	if _, err := parseDependencies(strings.NewReader("no colon\n")); err == nil {
		t.Error("a line with no colon was read")
	}
}
