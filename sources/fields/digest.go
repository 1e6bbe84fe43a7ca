package fields

import "hash/maphash"

// Digest stands for a text, which need not stay in memory for a comparison: 128 bits that differ between processes, so
// that no text can be made to have another one's.
type Digest struct {
	Size int // bytes
	hash [2]uint64
}

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// DigestOf returns the digest of a text.
func DigestOf(text []byte) Digest {
	return Digest{len(text), [2]uint64{maphash.Bytes(seeds[0], text), maphash.Bytes(seeds[1], text)}}
}

// Is reports whether the digest is of a text.
func (d Digest) Is(text []byte) bool { return d.Size == len(text) && d == DigestOf(text) }
