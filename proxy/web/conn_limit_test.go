package web

import (
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// rig is a limit whose connections are pipes with named clients.
type rig struct {
	*testing.T
	limit   Limit
	client  string
	peers   map[string]net.Conn // the clients' ends
	servers map[string]net.Conn
}

func newRig(t *testing.T, limit int) *rig {
	r := &rig{T: t, peers: map[string]net.Conn{}, servers: map[string]net.Conn{}}
	r.limit = Limit{Max: limit, Client: func(net.Conn) (string, bool) { return r.client, r.client == "root" }}
	return r
}

// connect opens a connection, one second after the last step.
func (r *rig) connect(client, name string) {
	time.Sleep(time.Second)
	server, peer := net.Pipe()
	r.client = client
	r.peers[name], r.servers[name] = peer, r.limit.add(server)
}

// use reads one byte from a connection.
func (r *rig) use(name string) {
	time.Sleep(time.Second)
	go r.peers[name].Write([]byte("x"))
	if _, err := r.servers[name].Read(make([]byte, 1)); err != nil {
		r.Error(err)
	}
}

// want checks that these connections are open and no others.
func (r *rig) want(names ...string) {
	r.Helper()
	open := map[string]bool{}
	for name, c := range r.servers {
		r.limit.mu.Lock()
		_, open[name] = r.limit.open[c.(*conn)]
		r.limit.mu.Unlock()
	}
	for _, name := range names {
		if !open[name] {
			r.Errorf("%s is closed", name)
		}
		delete(open, name)
	}
	for name, is := range open {
		if is {
			r.Errorf("%s is open", name)
		}
	}
	if r.limit.Len() != len(names) {
		r.Errorf("%d are open, want %d", r.limit.Len(), len(names))
	}
}

func TestIdlestIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.connect("a", "1")
		r.connect("a", "2")
		r.use("1")
		r.connect("a", "3")
		r.want("1", "3")
		if _, err := r.peers["2"].Read(make([]byte, 1)); err == nil {
			t.Error("its client does not see the end")
		}
		r.servers["1"].Close()
		r.connect("a", "4")
		r.want("3", "4")
	})
}

func TestClientWithMostLoses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4)
		r.connect("quiet", "q")
		for i := range 10 {
			r.connect("greedy", fmt.Sprint(i))
		}
		r.want("q", "7", "8", "9")
		r.connect("other", "o")
		r.want("q", "8", "9", "o")
	})
}

func TestRoomForRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.connect("a", "1")
		r.connect("b", "2")
		r.connect("root", "r1")
		r.connect("root", "r2")
		r.want("r1", "r2")
		r.connect("a", "3")
		r.want("r1", "r2")
		r.connect("root", "r3")
		r.want("r2", "r3")
	})
}
