package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/svcproxy/svcproxy/kernel/machine"
)

// run runs the program of a configuration: without a shell, without svcproxy's capabilities, in / and with an
// environment of its own. It gets the message as JSON on standard input. When the time is over, its process group is
// killed. A process that the program leaves behind lives on. That is not an error.
func run(ctx context.Context, c Config, m Message) error {
	if len(c.Exec) == 0 {
		return nil
	}
	body, err := json.Marshal(m)
	if err == nil {
		err = machine.CheckProgram(c.Exec[0])
	}
	if err != nil {
		return err
	}
	var out output
	cmd := exec.CommandContext(ctx, c.Exec[0], c.Exec[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = "/", bytes.NewReader(body), &out, &out
	cmd.Env = []string{
		machine.Path,
		"SVCPROXY_NODE=" + m.Node,
		"SVCPROXY_TEXT=" + strings.ReplaceAll(m.Text, "\x00", ""),
		"SVCPROXY_KIND=" + string(m.Events[len(m.Events)-1].Kind),
		"SVCPROXY_EVENTS=" + strconv.Itoa(len(m.Events)+m.More),
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err = machine.StartUnprivileged(cmd); err == nil {
		err = cmd.Wait()
	}
	if errors.Is(err, exec.ErrWaitDelay) { // such a process has its output
		err = nil
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", c.Exec[0], ctx.Err())
	case err != nil && out.String() != "":
		return fmt.Errorf("%s: %w: %s", c.Exec[0], err, out.String())
	case err != nil:
		return fmt.Errorf("%s: %w", c.Exec[0], err)
	}
	return nil
}

// post sends the message to the web server of a configuration. Errors do not have the path of the URL, which may be a
// secret. A redirection is a failure: POST would become GET.
func post(ctx context.Context, c Config, m Message) error {
	if c.Webhook == "" {
		return nil
	}
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Webhook, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL is not valid")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "svcproxy/"+m.Version)
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	answer, err := client.Do(r)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err
		}
		return fmt.Errorf("%s: %w", r.URL.Host, err)
	}
	answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("%s: status %d", r.URL.Host, answer.StatusCode)
	}
	return nil
}

// maxOutput is how many bytes of a program's output an error has.
const maxOutput = 200

// output keeps the start of what a program writes.
type output struct{ text []byte }

func (o *output) Write(b []byte) (int, error) {
	o.text = append(o.text, b[:min(len(b), maxOutput-len(o.text))]...)
	return len(b), nil
}

func (o *output) String() string { return strings.TrimSpace(string(o.text)) }
