package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// A cpio is an initramfs in the making, in the "newc" format the kernel unpacks
// (Documentation/driver-api/early-userspace/buffer-format.rst).
type cpio struct {
	bytes.Buffer
	inode int
}

const (
	modeDir    = 0o040755
	modeExec   = 0o100755
	modeFile   = 0o100644
	modeDevice = 0o020600
)

func (c *cpio) add(path string, mode int, body []byte) {
	c.inode++
	major, minor := 0, 0
	if mode == modeDevice {
		major, minor = 5, 1 // /dev/console
	}
	if path == trailer {
		c.inode = 0
	}
	fmt.Fprintf(c, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
		c.inode, mode, 0, 0, 1, 0, len(body), 0, 0, major, minor, len(path)+1, 0)
	c.WriteString(path + "\x00")
	c.align()
	c.Write(body)
	c.align()
}

const trailer = "TRAILER!!!"

func (c *cpio) align() {
	for c.Len()%4 != 0 {
		c.WriteByte(0)
	}
}

// initramfs holds this very program as /init and the boot modules, numbered in
// the order to insert them.
func initramfs(k kernel) ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(filepath.Join(k.Target.programs(self), filepath.Base(self)))
	if err != nil {
		return nil, err
	}
	d, err := readDependencies(k.modules())
	if err != nil {
		return nil, err
	}
	var c cpio
	for _, dir := range []string{"dev", "proc", "sys", "lower", "upper", "root", "modules"} {
		c.add(dir, modeDir, nil)
	}
	c.add("dev/console", modeDevice, nil)
	c.add("init", modeExec, program)
	for i, path := range d.order(bootModules) {
		module, err := os.ReadFile(filepath.Join(k.modules(), path))
		if err != nil {
			return nil, err
		}
		c.add(fmt.Sprintf("modules/%02d-%s", i, filepath.Base(path)), modeFile, module)
	}
	c.add(trailer, 0, nil)
	return c.Bytes(), nil
}
