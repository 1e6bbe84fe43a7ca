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

// extractKernel returns the ELF kernel inside a bzImage. QEMU starts it by PVH,
// which saves the guest its own decompression: half of the boot time under TCG.
func extractKernel(ctx context.Context, path string) ([]byte, error) {
	image, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if isArm64(image) {
		return image, nil
	}
	p, err := payload(image)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	unpacked, err := decompress(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("%s: unpack its payload: %w", path, err)
	}
	if !bytes.HasPrefix(unpacked, []byte("\x7fELF")) && !isArm64(unpacked) {
		return nil, fmt.Errorf("%s: its payload is no kernel", path)
	}
	return unpacked, nil
}

// isArm64 reports whether this is an arm64 kernel, unpacked: QEMU starts it as it
// is (Documentation/arch/arm64/booting.rst).
func isArm64(image []byte) bool {
	const magicAt = 56
	return len(image) > magicAt+4 && string(image[magicAt:magicAt+4]) == "ARM\x64"
}

// payload is the compressed kernel in a bzImage, or in an EFI program that
// unpacks it (zboot, include/linux/pe.h): "MZ", "zimg" at 4, offset and length.
func payload(image []byte) ([]byte, error) {
	if len(image) > 64 && string(image[4:8]) == "zimg" {
		start := uint64(binary.LittleEndian.Uint32(image[8:]))
		end := start + uint64(binary.LittleEndian.Uint32(image[12:]))
		if end > uint64(len(image)) {
			return nil, fmt.Errorf("zboot image is cut: payload ends at %d of %d", end, len(image))
		}
		return image[start:end], nil
	}
	if len(image) < payloadLengthAt+4 || string(image[headerMagicAt:headerMagicAt+4]) != "HdrS" {
		return nil, fmt.Errorf("neither a bzImage nor an arm64 kernel")
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
