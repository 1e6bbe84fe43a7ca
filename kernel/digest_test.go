package kernel_test

import (
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// Each thing that changes which real server a client gets changes the digest, and nothing else does.
func TestDigest(t *testing.T) {
	digest := func(text string) kernel.Digest {
		t.Helper()
		o, err := kernel.ParseObserved(text)
		if err != nil {
			t.Fatal(err)
		}
		return kernel.DigestOf(&o.Virtuals[0], o.Reals.Slice())
	}
	const virtual = "-A -t 10.96.0.1:80 -s mh -b flag-1,flag-2\n"
	const one, two = "-a -t 10.96.0.1:80 -r 10.2.0.1:80 -g -w 1\n", "-a -t 10.96.0.1:80 -r 10.2.0.2:80 -g -w 1\n"
	base := digest(virtual + one + two)
	if again := digest(virtual + two + one); again != base {
		t.Errorf("%v in another order: %v", base, again)
	}
	seen := map[kernel.Digest]string{base: "base"}
	for _, text := range []string{
		virtual, virtual + one,
		"-A -t 10.96.0.1:80 -s mh -b flag-1\n" + one + two,
		"-A -t 10.96.0.1:80 -s sh -b flag-1,flag-2\n" + one + two,
		"-A -t 10.96.0.1:80 -s mh -b flag-1,flag-2 -p 300\n" + one + two,
		virtual + one + "-a -t 10.96.0.1:80 -r 10.2.0.2:80 -g -w 2\n",
		virtual + one + "-a -t 10.96.0.1:80 -r 10.2.0.2:81 -g -w 1\n",
		virtual + one + "-a -t 10.96.0.1:80 -r 10.2.0.2:80 -m -w 1\n",
		virtual + one + "-a -t 10.96.0.1:80 -r 10.2.0.2:80 -i -w 1\n",
		"-A -t 10.96.0.2:80 -s mh -b flag-1,flag-2\n-a -t 10.96.0.2:80 -r 10.2.0.1:80 -g -w 1\n-a -t 10.96.0.2:80 -r 10.2.0.2:80 -g -w 1\n",
	} {
		d := digest(text)
		if other, dup := seen[d]; dup {
			t.Errorf("%v of both\n%s\nand\n%s", d, text, other)
		}
		seen[d] = text
		if d >= 1<<48 || len(d.String()) != 12 {
			t.Errorf("%v has more than 48 bits", d)
		}
	}
	if a, b := kernel.DigestOfAll([]kernel.Digest{1, 2}), kernel.DigestOfAll([]kernel.Digest{2, 1}); a == b {
		t.Error("digests of all do not tell their order")
	}
}
