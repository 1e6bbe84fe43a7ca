package appliance

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// TestScripts runs script/*.txtar, on the node.
func TestScripts(t *testing.T) {
	packages := os.Getenv(onNode)
	if packages == "" {
		t.Skip("runs on a node that TestNode boots")
	}
	network, err := lab.NewHere()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { network.Close() })
	n, f := &node{lab: network}, &fleet{}
	testscript.Run(t, testscript.Params{
		Dir: "script", RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			tree, err := filepath.Abs("../..")
			e.Vars = append(e.Vars, "TREE="+tree, "PACKAGES="+packages, "ARCH="+runtime.GOARCH, "DEBIAN_FRONTEND=noninteractive", "PATH="+os.Getenv("PATH"))
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"ask": n.ask, "get": n.get, "blocks": blocks, "clients": n.clients, "until": until, "exits": exits, "server": n.server, "client": n.client, "webhook": webhook, "sandbox": new(sandbox).do,
			"fleet": f.begin, "on": f.on, "router": f.router, "ways": f.ways, "link": f.link, "lose": f.lose, "flows": f.hold,
		},
	})
}

// node is the machine we are on, with the lab around it.
type node struct {
	lab   *lab.Lab
	crowd *crowd
}

// patience is how long what must happen may take, on an emulated processor that
// others use, too.
const patience = 3 * time.Minute

// ask sends requests to VIP:PORT from the client until a backend answers. With
// "!" it sends one request, and no backend may answer.
func (n *node) ask(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] ask VIP:PORT")
	}
	to := netip.MustParseAddrPort(args[0])
	if neg {
		if a, err := n.lab.Client.Ask("tcp", to); err == nil {
			ts.Fatalf("%s was answered by %s", to, a.Backend)
		}
		return
	}
	ts.Check(lab.Eventually(patience, func() error {
		_, err := n.lab.Client.Ask("tcp", to)
		return err
	}))
}

// get asks VIP:PORT by HTTP from the client until a backend answers. It resets its connections: of others IPVS counts the
// end for two minutes, which svcproxy node drain --wait would wait for.
func (n *node) get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: get VIP:PORT")
	}
	to := netip.MustParseAddrPort(args[0])
	ts.Check(lab.Eventually(patience, func() error {
		c, err := n.lab.Client.Dial("tcp", to)
		if err != nil {
			return err
		}
		defer c.Reset()
		_, err = c.Get()
		return err
	}))
}

// server runs a program on a backend: server ADDRESS PROGRAM [ARGS...].
func (n *node) server(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: server ADDRESS PROGRAM [ARGS...]")
	}
	for _, b := range n.lab.Backends {
		if b.V4.String() == args[0] {
			out, err := b.Run(args[1], args[2:]...)
			ts.Logf("%s", out)
			ts.Check(err)
			return
		}
	}
	ts.Fatalf("no backend has %s", args[0])
}

// client runs a program on the client until it succeeds: client PROGRAM [ARGS...].
func (n *node) client(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: client PROGRAM [ARGS...]")
	}
	ts.Check(lab.Eventually(patience, func() error {
		out, err := n.lab.Client.Run(args[0], args[1:]...)
		ts.Logf("%s", out)
		return err
	}))
}

// webhook begins a web server on the node, which adds what is posted to a file: webhook ADDRESS:PORT FILE.
func webhook(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: webhook ADDRESS:PORT FILE")
	}
	file, err := os.Create(ts.MkAbs(args[1]))
	ts.Check(err)
	listener, err := net.Listen("tcp", args[0])
	ts.Check(err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(file, r.Body); err != nil || r.Method != http.MethodPost {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})}
	go server.Serve(listener)
	ts.Defer(func() { server.Close(); file.Close() })
}

// clients begins traffic to VIP:PORT that goes on until the next "clients end",
// which fails if any of it was lost.
func (n *node) clients(ts *testscript.TestScript, neg bool, args []string) {
	switch {
	case !neg && len(args) == 2 && args[0] == "begin" && n.crowd == nil:
		var err error
		n.crowd, err = gather(n.lab.Client, netip.MustParseAddrPort(args[1]))
		ts.Check(err)
	case !neg && len(args) == 1 && args[0] == "end" && n.crowd != nil:
		said, err := n.crowd.end()
		n.crowd = nil
		ts.Check(err)
		ts.Logf("%s", said)
	default:
		ts.Fatalf("usage: clients begin VIP:PORT, then clients end")
	}
}

// until runs a program until it succeeds: until PROGRAM [ARGS...].
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: until PROGRAM [ARGS...]")
	}
	ts.Check(lab.Eventually(patience, func() error {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = ts.MkAbs(".")
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
		}
		return nil
	}))
}

// exits is exec that wants this exit code: exits 3 PROGRAM [ARGS...].
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARGS...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var ended *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &ended) {
		got = ended.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
