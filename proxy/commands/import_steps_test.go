package commands

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/machine"
	"github.com/svcproxy/svcproxy/proxy/announce"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/sources/convert"
)

// Every format has steps, and those of keepalived move its VIPs.
func TestTakeOver(t *testing.T) {
	vips := []onLink{{netip.MustParsePrefix("192.0.2.80/32"), "eth0"}, {netip.MustParsePrefix("2001:db8::80/128"), "eth0"}}
	for _, f := range convert.Formats() {
		steps, _ := takeover{from: f, vips: vips, device: "vips0"}.steps()
		if text := strings.Join(steps, "\n"); !strings.Contains(text, "systemctl start svcproxy") || strings.Contains(text, "%!") {
			t.Errorf("%s:\n%s", f, text)
		}
	}
	const untilOnLinks = `for a in 192.0.2.80 2001:db8::80; do timeout 60 sh -c "until ip -o address | grep -v ' vips0 ' | grep -qF ' $a/'; do sleep 1; done"; done; `
	const deleteRoutes = `ip -4 route del local 192.0.2.80 dev lo proto boot; ip -6 route del local 2001:db8::80 dev lo proto boot  # keepalived is master again`
	const backupsFirst = "  # backup nodes first; stop keepalived on them while you change the master"
	for _, c := range []struct {
		name        string
		takeover    takeover
		steps, back []string
	}{
		{
			"replaces keepalived", takeover{from: convert.Keepalived, vips: vips, device: "vips0"},
			[]string{
				"svcproxy check && systemctl start svcproxy  # while keepalived runs: virtual servers that are as these services want are not written",
				"systemctl mask keepalived; pkill -STOP -x keepalived; kill -KILL $(pgrep -x keepalived | sort -rn)  # any other stop removes its virtual servers",
				"ip route append local 192.0.2.80 dev lo; ip address del 192.0.2.80/32 dev eth0  # svcproxy binds it",
				"ip route append local 2001:db8::80 dev lo; ip address del 2001:db8::80/128 dev eth0  # svcproxy binds it",
				"timeout 60 sh -c 'until ip -4 route show table local 192.0.2.80 | grep -q proto; do sleep 1; done' && ip -4 route del local 192.0.2.80 dev lo proto boot  # if it fails: svcproxy doctor",
				"timeout 60 sh -c 'until ip -6 route show table local 2001:db8::80 | grep -q proto; do sleep 1; done' && ip -6 route del local 2001:db8::80 dev lo proto boot  # if it fails: svcproxy doctor",
			},
			[]string{
				"systemctl stop svcproxy; systemctl unmask keepalived; systemctl start keepalived  # what the kernel has is served meanwhile",
				untilOnLinks + "svcproxy cleanup  # it leaves what the configuration of keepalived has",
			},
		},
		{
			"leaves VRRP to keepalived", takeover{
				from: convert.Keepalived, vrrp: &convert.VRRP{Conf: "x", Priority: 150, Quorum: true}, conf: "/etc/svcproxy/services.d/keepalived.conf",
				settings: "/etc/svcproxy/svcproxy.toml", tables: []string{"ipvs"}, announce: config.Announce{File: "/run/svcproxy/announced"}, vips: vips, device: "vips0",
			},
			[]string{
				`sed -i '/^\[ipvs\]/a strictARP = true' /etc/svcproxy/svcproxy.toml; ` +
					`printf '\n[announce]\nmode = "vrrp"\nfile = "/run/svcproxy/announced"\nvipPriority = 60\n' >>/etc/svcproxy/svcproxy.toml` +
					"  # vipPriority: the same on both nodes, and more than their priorities differ",
				"svcproxy check && systemctl start svcproxy  # while keepalived runs: virtual servers that are as these services want are not written",
				"cp -p /etc/keepalived/keepalived.conf /etc/keepalived/keepalived.conf.ipvs; mv /etc/svcproxy/services.d/keepalived.conf /etc/keepalived/keepalived.conf" + backupsFirst,
				"ip route append local 192.0.2.80 dev lo; ip route append local 2001:db8::80 dev lo  # the VIPs stay local while keepalived starts",
				"pkill -STOP -x keepalived; kill -KILL $(pgrep -x keepalived | sort -rn); ip address del 192.0.2.80/32 dev eth0; ip address del 2001:db8::80/128 dev eth0; " +
					"systemctl restart keepalived  # any other stop removes its virtual servers",
				untilOnLinks + deleteRoutes,
			},
			[]string{
				"systemctl stop svcproxy; mv /etc/keepalived/keepalived.conf.ipvs /etc/keepalived/keepalived.conf  # what the kernel has is served meanwhile",
				"ip route append local 192.0.2.80 dev lo; ip route append local 2001:db8::80 dev lo  # as before",
				"systemctl restart keepalived",
				untilOnLinks + deleteRoutes,
				"svcproxy cleanup  # it leaves what the configuration of keepalived has",
			},
		},
		{
			"a backup node that follows a file already", takeover{
				from: convert.Keepalived, vrrp: &convert.VRRP{}, announce: config.Announce{Mode: announce.VRRP, File: "/run/lost"}, strictARP: true, device: "vips0",
			},
			[]string{
				"# write /etc/keepalived/keepalived.conf.vrrp: keepalived.conf without virtual servers, following /run/lost (import cannot, as it has not read all of it; " +
					"see /usr/share/doc/svcproxy/examples)",
				"svcproxy check && systemctl start svcproxy  # while keepalived runs: virtual servers that are as these services want are not written",
				"cp -p /etc/keepalived/keepalived.conf /etc/keepalived/keepalived.conf.ipvs; mv /etc/keepalived/keepalived.conf.vrrp /etc/keepalived/keepalived.conf" + backupsFirst,
				"pkill -STOP -x keepalived; kill -KILL $(pgrep -x keepalived | sort -rn); systemctl restart keepalived  # any other stop removes its virtual servers",
			},
			[]string{
				"systemctl stop svcproxy; mv /etc/keepalived/keepalived.conf.ipvs /etc/keepalived/keepalived.conf  # what the kernel has is served meanwhile",
				"systemctl restart keepalived",
				"svcproxy cleanup  # it leaves what the configuration of keepalived has",
			},
		},
	} {
		steps, back := c.takeover.steps()
		for _, x := range []struct{ got, want []string }{{steps, c.steps}, {back, c.back}} {
			if !slices.Equal(x.got, x.want) {
				t.Errorf("%s:\n%s\nwant:\n%s", c.name, strings.Join(x.got, "\n"), strings.Join(x.want, "\n"))
			}
		}
	}
}

// Only what svcproxy.toml lacks is written. A table that may have the keys is not written to.
func TestAnnounces(t *testing.T) {
	const toml, why = "/etc/svcproxy/svcproxy.toml", "  # vipPriority: the same on both nodes, and more than their priorities differ"
	ofPair := config.Announce{Mode: announce.VRRP, File: "/run/f", VIPPriority: 10}
	for name, c := range map[string]struct {
		takeover
		want []string
	}{
		"all is there":       {takeover{announce: ofPair, strictARP: true, vrrp: &convert.VRRP{Priority: 150}}, nil},
		"addresses answer":   {takeover{announce: ofPair, vrrp: &convert.VRRP{}}, []string{`printf '\n[ipvs]\nstrictARP = true\n' >>` + toml}},
		"too little to move": {takeover{announce: ofPair, strictARP: true, tables: []string{"announce"}, vrrp: &convert.VRRP{Priority: 200, Quorum: true}}, []string{"# set in [announce] of " + toml + ": vipPriority = 110" + why}},
		"another mode": {takeover{announce: config.Announce{Mode: announce.Routes, File: "/run/f"}, tables: []string{"announce"}, vrrp: &convert.VRRP{}}, []string{
			`printf '\n[ipvs]\nstrictARP = true\n' >>` + toml, "# set in [announce] of " + toml + `: mode = "vrrp", file = "/run/f"`,
		}},
	} {
		c.settings = toml
		if got := c.announces(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// What a VIP takes moves it to a peer with keepalived's default, and is a number that keepalived takes.
func TestVIPPriority(t *testing.T) {
	for own, want := range map[int]int{1: 60, 100: 60, 150: 60, 200: 110, 254: 164} {
		if got := vipPriority(own); got != want {
			t.Errorf("priority %d: %d, want %d", own, got, want)
		}
	}
}

// --live tells by the processes whose place svcproxy takes.
func TestRuns(t *testing.T) {
	for name, want := range map[string]convert.Format{
		"keepalived": convert.Keepalived, "ldirectord": convert.LDirectord, "kube-proxy": convert.Kubernetes, "chronyd": convert.IPVSAdm,
	} {
		if got := runs([]machine.Process{{PID: 7, Name: name}}); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestKeepalivedFile(t *testing.T) {
	const usual = "/etc/keepalived/keepalived.conf"
	for args, want := range map[string]struct {
		file   string
		serves bool
	}{
		"--dont-fork":           {usual, true},
		"-n --use-file=/a -D":   {"/a", true},
		"--use-file /b":         {"/b", true},
		"-n -f /c":              {"/c", true},
		"-f/d -n":               {"/d", true},
		"--dont-fork --vrrp":    {usual, false},
		"-P --use-file=/e.conf": {"/e.conf", false},
		"-nlf /g -D":            {"/g", true},
		"-nlf/h":                {"/h", true},
		"-nP":                   {usual, false},
		"-nPf /i":               {"/i", false},
		"-np /run/P.pid -f /j":  {"/j", true},
		"-p/run/fP.pid":         {usual, true},
		"-p -P":                 {usual, true},
		"-g/var/log/fP -l":      {usual, true},
		"-P --all":              {usual, true},
		"-nf":                   {usual, true},
	} {
		if file, serves := keepalivedFile(strings.Fields(args)); file != want.file || serves != want.serves {
			t.Errorf("%s: %s, %v", args, file, serves)
		}
	}
}

// What keepalived serves is read from its file and from those that this includes, and whether it moves addresses.
func TestKeepalivedServes(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "keepalived.conf")
	for name, text := range map[string]string{
		"keepalived.conf": "virtual_server 192.0.2.80 80 {\nlb_algo rr\nprotocol TCP\nreal_server 10.0.0.1 80 { }\n}\ninclude more.conf\n",
		"more.conf": "virtual_server 192.0.2.80 53 {\nprotocol UDP\nreal_server 10.0.0.1 53 { }\n}\n" +
			"vrrp_instance a {\nvirtual_ipaddress {\n192.0.2.80\n}\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := keepalived{os.Getpid(), file, true}.read()
	keys := keysOf(r)
	if err != nil || r.VRRP == nil || len(keys) != 2 || keys[0].String() != "-t 192.0.2.80:80" && keys[1].String() != "-t 192.0.2.80:80" {
		t.Errorf("%v, %v", keys, err)
	}
	if _, err := (keepalived{os.Getpid(), filepath.Join(dir, "none"), true}).read(); err == nil {
		t.Error("a file that is not there")
	}
}
