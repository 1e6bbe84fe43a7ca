package report

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/sources/redact"
)

func TestTOML(t *testing.T) {
	const in = `# password: hunter2
mode = "ipvs" # hunter2
clientConnection.master = "https://admin:hunter2@10.0.0.1"
notify.exec = ["/usr/local/bin/page", "hunter2"]
notify.webhook = "https://alerts.example.net/hunter2"
[services.web]
ports = [{ port = 80 }, # hunter2
  { port = 443 }]
healthCheck = { type = "http", path = "/x?token=hunter2", headers = { Authorization = "Bearer hunter2", "X-Key" = 'hunter2' }, fall = 2 }
[services.web.healthCheck.headers]
X = "hunter2"
[services.dns]
healthCheck.type = "udp"
healthCheck.send = """
hunter2 \" #"""
healthCheck."expect" = "hunter2"
"healthCheck".args = [
  "-p", 'hunter2', # hunter2
]
"sen\u0064" = "hunter2"
apiToken = "hunter2"
path = "/plain"
endpoints = ["10.2.0.1"]
[services.short]
healthCheck = "https:/health?key=hunter2"
healthcheck = 'http:/?hunter2'
health.path = """/?hunter2"""
name = "what?"
[healthChecks]
web = "http:/x?key=hunter2"
plain = { type = "http", path = "/y", method = "HEAD" }
bare = http:/x?hunter2
[notify]
exec = [
  "/usr/local/bin/page", 'hunter2',
]
`
	const want = `
mode = "ipvs" 
clientConnection.master = "<left out>"
notify.exec = "<left out>"
notify.webhook = "<left out>"
[services.web]
ports = [{ port = 80 }, 
  { port = 443 }]
healthCheck = { type = "http", path = "<left out>", headers = "<left out>", fall = 2 }
[services.web.healthCheck.headers]
X = "<left out>"
[services.dns]
healthCheck.type = "udp"
healthCheck.send = "<left out>"
healthCheck."expect" = "<left out>"
"healthCheck".args = "<left out>"
"sen\u0064" = "<left out>"
apiToken = "<left out>"
path = "/plain"
endpoints = ["10.2.0.1"]
[services.short]
healthCheck = "<left out>"
healthcheck = "<left out>"
health.path = "<left out>"
name = "what?"
[healthChecks]
web = "<left out>"
plain = { type = "http", path = "/y", method = "HEAD" }
bare = "<left out>"
[notify]
exec = "<left out>"
`
	if got := TOML(in); got != want {
		t.Errorf("got:\n%s", got)
	}
	for _, broken := range []string{"a = \"\nsend = \"hunter2\"", "a b = 'hunter2'", "[x\nsend = 'hunter2'", "x = [1 hunter2", `send = "hunter2`, `send = { hunter2`, "= hunter2", "x = {a=1\nhunter2=3}", "none =\nx = 'hunter2'"} {
		if got := TOML(broken); strings.Contains(got, "hunter2") {
			t.Errorf("%q: %q", broken, got)
		}
	}
}

func TestWrite(t *testing.T) {
	make := func() (*Report, []byte) {
		r := &Report{Name: "report", Time: time.Unix(1_700_000_000, 5)}
		r.Add("b.txt", "the second", "two token=abcdef")
		r.Add("a.txt", "the first", "one\n")
		r.Add("c.txt", "nothing", "")
		r.Lacks("the log", errors.New("permission denied"))
		r.Redact(&redact.Secrets{})
		var b bytes.Buffer
		if err := r.Write(&b); err != nil {
			t.Fatal(err)
		}
		return r, b.Bytes()
	}
	r, one := make()
	if _, two := make(); !bytes.Equal(one, two) {
		t.Error("two reports of the same texts differ")
	}
	want := "  a.txt         4 bytes  the first\n  b.txt        21 bytes  the second\n  not in it: the log: permission denied\n"
	if got := r.Contents(); got != want {
		t.Errorf("contents:\n%swant:\n%s", got, want)
	}
	z, err := gzip.NewReader(bytes.NewReader(one))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for archive := tar.NewReader(z); ; {
		h, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(archive)
		if h.Mode != 0o600 || strings.Contains(string(text), "abcdef") {
			t.Errorf("%s: mode %o, %q", h.Name, h.Mode, text)
		}
		names = append(names, h.Name)
	}
	if got := strings.Join(names, " "); got != "report/README report/a.txt report/b.txt" {
		t.Errorf("files: %s", got)
	}
}
