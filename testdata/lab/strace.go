package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// straceFlags have strace write what a Trace wants: who talked netlink or
// executed something, messages decoded and whole, strings short. Only these
// system calls stop the traced process.
var straceFlags = []string{"-f", "-qq", "-yy", "-v", "-s", "4", "-x", "--seccomp-bpf",
	"-e", "trace=execve,sendto,sendmsg,sendmmsg,recvfrom,recvmsg,getsockopt,setsockopt"}

// A Call is one system call of a trace.
type Call struct {
	Thread   string
	Name     string    // sendto
	Socket   string    // of netlink: GENERIC, NETFILTER, ROUTE; else ""
	port     string    // of netlink: the socket's port ID, which no other of its family has
	Messages []Message // sent
	Exec     string    // of execve: the program
	Line     string    // as strace wrote it
}

// A Message is one netlink message that was sent.
type Message struct {
	Type  string // RTM_NEWADDR, NFNL_SUBSYS_IPSET<<8|IPSET_CMD_ADD, IPVS 5
	Write bool   // it may have changed something: of an unknown type, or of one that does and not refused
	Dump  bool
}

// A Trace is system calls in their order.
type Trace []Call

var (
	traceLine   = regexp.MustCompile(`^(\d+)\s+(\w+)\((.*)$`)
	resumedLine = regexp.MustCompile(`^(\d+)\s+<\.\.\. (\w+) resumed>(.*)$`) // the rest of a call that another thread's interrupted
	netlinkFile = regexp.MustCompile(`^\d+<NETLINK:\[(\w+):(\d+)\]`)
	// A generic netlink command is "\x04\x01..." of strace 6.1, and {cmd=0x4, version=1} of 6.13.
	netlinkHead = regexp.MustCompile(`\{nlmsg_len=\d+, nlmsg_type=([^,]+), nlmsg_flags=([^,]+),[^}]*\}(?:, (?:"\\x0?|\{cmd=0x)([0-9a-f]+))?`)
	refusal     = regexp.MustCompile(`nlmsg_type=NLMSG_ERROR,.*\{error=-E`)
	execPath    = regexp.MustCompile(`^"([^"]+)"`)
	// reads are the message types that change nothing, by what strace calls them.
	// IPVS's are commands of linux/ip_vs.h: GET_SERVICE, _DEST, _DAEMON, _CONFIG, _INFO.
	reads = regexp.MustCompile(`^(RTM_GET\w+|nlctrl|NLMSG_NOOP|SOCK_DIAG_BY_FAMILY|IPVS [48bdf]|` +
		`NFNL_SUBSYS_IPSET<<8\|IPSET_CMD_(PROTOCOL|LIST|SAVE|TEST|HEADER|TYPE|GET_BYNAME|GET_BYINDEX)|` +
		`NFNL_SUBSYS_NFTABLES<<8\|NFT_MSG_GET\w+|NFNL_SUBSYS_NFT_COMPAT<<8\|NFNL_MSG_COMPAT_GET|NFNL_SUBSYS_CTNETLINK<<8\|IPCTNL_MSG_CT_GET\w*)$`)
	// dumps matches the flags of a dump, which of most families strace knows as a number.
	dumps       = regexp.MustCompile(`NLM_F_DUMP|\b0x3\d\d\b`)
	sockoptIPVS = regexp.MustCompile(`, SOL_IP, IP_VS_SO_`)
)

// ParseTrace reads what strace wrote with straceFlags.
func ParseTrace(text string) Trace {
	var t Trace
	s := bufio.NewScanner(strings.NewReader(text))
	s.Buffer(nil, len(text)+1)
	for s.Scan() {
		if m := resumedLine.FindStringSubmatch(s.Text()); m != nil {
			t.resume(m[1], m[2], m[3])
			continue
		}
		m := traceLine.FindStringSubmatch(s.Text())
		if m == nil {
			continue // a signal or an exit
		}
		c := Call{Thread: m[1], Name: m[2], Line: s.Text()}
		args := m[3]
		if f := netlinkFile.FindStringSubmatch(args); f != nil {
			c.Socket, c.port = f[1], f[2]
		}
		switch {
		case c.Name == "execve":
			if p := execPath.FindStringSubmatch(args); p != nil {
				c.Exec = p[1]
			}
		case c.Socket != "" && strings.HasPrefix(c.Name, "send"):
			c.Messages = messages(args)
		case c.Name == "setsockopt" && sockoptIPVS.MatchString(args):
			c.Messages = []Message{{Type: "IP_VS_SO_SET", Write: true}}
		case c.receives() && refusal.MatchString(args):
			t.refuse(c)
		}
		t = append(t, c)
	}
	return t
}

func (c Call) receives() bool { return c.Socket != "" && strings.HasPrefix(c.Name, "recv") }

// resume reads the rest of the thread's last call. What a call sends is in its first half already.
func (t Trace) resume(thread, name, rest string) {
	for _, c := range slices.Backward(t) {
		if c.Thread == thread && c.Name == name {
			if c.receives() && refusal.MatchString(rest) {
				t.refuse(c)
			}
			return
		}
	}
}

// refuse notes that the kernel refused the last message of the socket, if that was a
// single one. Such a message is a query, sent as a write that cannot succeed. Go may
// have moved the goroutine to another thread since.
func (t Trace) refuse(answer Call) {
	for _, c := range slices.Backward(t) {
		if c.Socket == answer.Socket && c.port == answer.port && len(c.Messages) > 0 {
			if len(c.Messages) == 1 {
				c.Messages[0].Write = false
			}
			return
		}
	}
}

// Own are the calls of svcproxy itself, without those of the programs that it
// executed. Their threads' first call is execve, as is svcproxy's own if strace
// started it.
func (t Trace) Own() Trace {
	others := map[string]bool{}
	var own Trace
	for i, c := range t {
		if c.Name == "execve" && i > 0 {
			others[c.Thread] = true
		}
		if !others[c.Thread] {
			own = append(own, c)
		}
	}
	return own
}

func messages(args string) []Message {
	var list []Message
	for _, m := range netlinkHead.FindAllStringSubmatch(args, -1) {
		typ := m[1]
		if typ == "IPVS" {
			typ += " " + m[3]
		}
		write := !reads.MatchString(typ)
		list = append(list, Message{Type: typ, Write: write, Dump: !write && dumps.MatchString(m[2])})
	}
	if len(list) == 0 { // what strace does not decode must not pass for nothing
		list = append(list, Message{Type: "undecoded", Write: true})
	}
	return list
}

// Writes are the messages that may have changed the kernel.
func (t Trace) Writes() []Message { return t.messages(func(m Message) bool { return m.Write }) }

// Dumps are the requests for whole tables, getsockopt's included.
func (t Trace) Dumps() []Message {
	list := t.messages(func(m Message) bool { return m.Dump })
	for _, c := range t {
		if c.Name == "getsockopt" && sockoptIPVS.MatchString(c.Line) {
			list = append(list, Message{Type: "IP_VS_SO_GET", Dump: true})
		}
	}
	return list
}

func (t Trace) messages(want func(Message) bool) []Message {
	var list []Message
	for _, c := range t {
		for _, m := range c.Messages {
			if want(m) {
				list = append(list, m)
			}
		}
	}
	return list
}

// Execs are the programs that were executed.
func (t Trace) Execs() []string {
	var list []string
	for _, c := range t {
		if c.Exec != "" {
			list = append(list, c.Exec)
		}
	}
	return list
}

// Netlink are the calls on netlink sockets, and those of getsockopt and
// setsockopt that reach IPVS.
func (t Trace) Netlink() Trace {
	return slices.DeleteFunc(slices.Clone(t), func(c Call) bool {
		return c.Socket == "" && !(strings.HasSuffix(c.Name, "sockopt") && sockoptIPVS.MatchString(c.Line))
	})
}

// String is strace's lines, each cut to what a person reads.
func (t Trace) String() string {
	var b strings.Builder
	for _, c := range t {
		fmt.Fprintf(&b, "%.300s\n", c.Line)
	}
	return b.String()
}

// StartTraced starts `svcproxy run` under strace, which writes to a file that
// Trace reads. Signals go to svcproxy itself.
func (p *Proxy) StartTraced() error { return p.startTraced(straceFlags) }

// StartTracedSends is StartTraced at a third of its cost, without what svcproxy
// receives: a write that the kernel refused is a write, too.
func (p *Proxy) StartTracedSends() error {
	last := len(straceFlags) - 1
	return p.startTraced(append(slices.Clone(straceFlags[:last]), strings.ReplaceAll(straceFlags[last], ",recvfrom,recvmsg", "")))
}

// StartSlowly starts `svcproxy run` so that each netlink message, or batch of them, takes this much longer. Other sends of
// svcproxy and of the programs that it executes do, too.
func (p *Proxy) StartSlowly(by time.Duration) error {
	return p.startTraced([]string{"-f", "-qq", "--seccomp-bpf", "-e", "trace=sendto", "-e", fmt.Sprintf("inject=sendto:delay_exit=%d", by.Microseconds())})
}

func (p *Proxy) startTraced(flags []string) error {
	os.Remove(p.path("trace"))
	args := append([]string{"strace", "-D", "-o", p.path("trace")}, flags...)
	return p.Start(append(args, "--")...)
}

// Trace is what strace has written so far, up to the last whole line.
func (p *Proxy) Trace() (Trace, error) {
	text, err := os.ReadFile(p.path("trace"))
	whole := string(text[:strings.LastIndexByte(string(text), '\n')+1])
	return ParseTrace(whole), err
}

// Traced counts the lines that strace has written so far. That is much faster
// than parsing them as a Trace: a minute of trace takes the guest seconds.
func (p *Proxy) Traced(what string) (int, error) {
	text, err := os.ReadFile(p.path("trace"))
	return strings.Count(string(text), what), err
}

// detachLimit is how long strace may take to let go of svcproxy: seconds on a busy machine.
const detachLimit = 15 * time.Second

// TraceDuring attaches strace to the running svcproxy while f runs.
func (p *Proxy) TraceDuring(f func() error) (Trace, error) {
	os.Remove(p.path("trace"))
	// -qq would also silence "attached", and seccomp filters cannot be attached.
	flags := slices.DeleteFunc(slices.Clone(straceFlags), func(f string) bool { return f == "-qq" || f == "--seccomp-bpf" })
	cmd := exec.Command("strace", append(flags, "-o", p.path("trace"), "-p", fmt.Sprint(p.Pid()))...)
	var log Log
	cmd.Stderr = &log
	if err := p.Node.Start(cmd); err != nil {
		return nil, fmt.Errorf("start strace: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), toolLimit, errors.New("too long"))
	defer cancel()
	_, err := log.Wait(ctx, 0, "attached")
	if err == nil {
		err = f()
	}
	// Now and then strace waits for ever for a thread to stop. It has written each line that it had by then.
	detached := time.AfterFunc(detachLimit, func() { cmd.Process.Kill() })
	defer detached.Stop()
	cmd.Process.Signal(syscall.SIGINT)
	cmd.Wait() // ends by the signal
	if err != nil {
		return nil, err
	}
	return p.Trace()
}
