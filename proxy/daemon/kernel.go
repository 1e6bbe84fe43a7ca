package daemon

import (
	"context"

	"github.com/svcproxy/svcproxy/kernel"
)

// readKernel reads the kernel for a user who may not. It opens the kernel by itself: the loop's last reading may be
// older than a fault, and only the loop may use the loop's kernel.
func (d *daemon) readKernel(ctx context.Context) (kernel.Observed, error) {
	d.reading.Lock() // one at a time, whatever users ask
	defer d.reading.Unlock()
	if err := ctx.Err(); err != nil {
		return kernel.Observed{}, err // the client has left
	}
	s := d.setup()
	s.Config.UseMode(d.mode.Name())
	k, err := s.Open(ctx, s.Config.Names())
	if err != nil {
		return kernel.Observed{}, err
	}
	defer k.Close()
	return k.Read(ctx)
}

// kernelText is such a reading as text.
func (d *daemon) kernelText(ctx context.Context) (string, error) {
	have, err := d.readKernel(ctx)
	if err != nil {
		return "", err
	}
	return have.String(), nil
}
