package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Offsets in an x86 kernel's setup header, Documentation/arch/x86/boot.rst.
const (
	setupSectsAt    = 0x1f1 // in sectors of 512 bytes, the boot sector not counted
	headerMagicAt   = 0x202 // "HdrS"
	payloadOffsetAt = 0x248 // from the protected-mode code's start
	payloadLengthAt = 0x24c
)

// extractVmlinux returns the ELF kernel inside a bzImage. QEMU starts it by PVH,
// which saves the guest its own decompression: half of the boot time under TCG.
func extractVmlinux(ctx context.Context, path string) ([]byte, error) {
	image, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p, err := payload(image)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	elf, err := decompress(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("%s: unpack its payload: %w", path, err)
	}
	if !bytes.HasPrefix(elf, []byte("\x7fELF")) {
		return nil, fmt.Errorf("%s: its payload is no ELF file", path)
	}
	return elf, nil
}

// payload is the compressed kernel in a bzImage.
func payload(image []byte) ([]byte, error) {
	if len(image) < payloadLengthAt+4 || string(image[headerMagicAt:headerMagicAt+4]) != "HdrS" {
		return nil, fmt.Errorf("not an x86 bzImage")
	}
	sects := uint64(image[setupSectsAt])
	if sects == 0 {
		sects = 4 // as the boot protocol says
	}
	start := (sects+1)*512 + uint64(binary.LittleEndian.Uint32(image[payloadOffsetAt:]))
	end := start + uint64(binary.LittleEndian.Uint32(image[payloadLengthAt:]))
	if end > uint64(len(image)) {
		return nil, fmt.Errorf("bzImage is cut: payload ends at %d of %d", end, len(image))
	}
	return image[start:end], nil
}

// decompress unpacks what Debian's kernels are packed with. The kernel's build
// appends the unpacked size, so data after the stream is no error.
func decompress(ctx context.Context, p []byte) ([]byte, error) {
	switch {
	case bytes.HasPrefix(p, []byte("\xfd7zXZ\x00")):
		return filter(ctx, p, "xz", "-dc", "--single-stream")
	case bytes.HasPrefix(p, []byte("\x28\xb5\x2f\xfd")):
		if len(p) > 4 {
			p = p[:len(p)-4] // zstd has no flag to ignore what follows
		}
		return filter(ctx, p, "zstd", "-dc")
	case bytes.HasPrefix(p, []byte("\x1f\x8b")):
		r, err := gzip.NewReader(bytes.NewReader(p))
		if err != nil {
			return nil, err
		}
		r.Multistream(false)
		return io.ReadAll(r)
	}
	return nil, fmt.Errorf("packed in an unknown way, first bytes %x", p[:min(len(p), 6)])
}

func filter(ctx context.Context, in []byte, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}
