package convert

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// keepalivedService is a keepalived.conf with one virtual server, which has some lines, and so has its real server.
func keepalivedService(virtual, real string) string {
	return "virtual_server 203.0.113.1 80 {\nprotocol TCP\n" + virtual + "\nreal_server 10.2.1.10 80 {\n" + real + "\n}\n}\n"
}

func haproxyService(lines string) string {
	return "listen web\n bind 203.0.113.1:80\n" + lines + "\n server a 10.2.1.10:80 check\n"
}

func ldirectordService(lines string) string {
	return "virtual=203.0.113.1:80\n\treal=10.2.1.10:80 masq\n\t" + strings.ReplaceAll(lines, "\n", "\n\t") + "\n"
}

const plainService = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}\n"

// TestSecrets imports configurations in which hunter2 is the secret, in one form each. It must be in no services file, note
// or error.
func TestSecrets(t *testing.T) {
	const pem = "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n"
	resp := "*2\r\n$4\r\nAUTH\r\n$7\r\nhunter2\r\n"
	forms := []struct {
		format     Format
		name, text string
	}{
		{Keepalived, "auth_pass", "vrrp_instance a {\nauthentication {\nauth_type PASS\nauth_pass hunter2\n}\nvirtual_ipaddress {\n203.0.113.1\n}\n}\n" + keepalivedService("", "")},
		{Keepalived, "notify scripts", keepalivedService(`quorum_up "/usr/bin/curl https://x/?token=hunter2"`, `notify_down "/bin/page hunter2"`)},
		{Keepalived, "misc_path", keepalivedService("", "MISC_CHECK {\nmisc_path \"/usr/bin/mysqladmin -phunter2 ping\"\n}")},
		{Keepalived, "misc_path with a variable", "$PASS=hunter2\n" + keepalivedService("", "MISC_CHECK {\nmisc_path \"/bin/check --password ${PASS}\"\n}")},
		{Keepalived, "misc_path with an environment", keepalivedService("", "MISC_CHECK {\nmisc_path \"/usr/bin/env PGPASSWORD=hunter2 psql\"\n}")},
		{Keepalived, "curl -u", keepalivedService("", "MISC_CHECK {\nmisc_path \"/usr/bin/curl -u admin:hunter2 http://10.2.1.10/\"\n}")},
		{Keepalived, "curl -H", keepalivedService("", "MISC_CHECK {\nmisc_path \"/usr/bin/curl -H 'X-Auth-Token: hunter2' http://10.2.1.10/\"\n}")},
		{Keepalived, "path with a key", keepalivedService("", "HTTP_GET {\nurl {\npath /x?api_key=hunter2\n}\n}")},
		{Keepalived, "virtualhost with a user", keepalivedService("virtualhost admin:hunter2@www", "HTTP_GET {\nurl {\npath /\n}\n}")},
		{Keepalived, "payload", keepalivedService("", "UDP_CHECK {\npayload "+hex.EncodeToString([]byte(resp))+"\n}")},
		{Keepalived, "bad payload", keepalivedService("", "UDP_CHECK {\npayload hunter2\n}")},
		{Keepalived, "digest", keepalivedService("", "HTTP_GET {\nurl {\npath /\ndigest hunter2\n}\n}")},
		{Keepalived, "SSL", "SSL {\npassword hunter2\nkey /etc/hunter2\n}\n" + keepalivedService("", "")},
		{Keepalived, "a key inside", pem + keepalivedService("", "")},
		{Keepalived, "shadow", "root:$6$hunter2:19000:0:99999:7:::\n" + keepalivedService("", "")},
		{Keepalived, "a file with a password", "hunter2\n" + keepalivedService("hunter2", "hunter2\nTCP_CHECK {\nhunter2\n}")},
		{Keepalived, "a netrc", "machine db login me password hunter2\n" + keepalivedService("password hunter2", "password hunter2")},
		{Keepalived, "words behind", keepalivedService("lb_algo rr hunter2", "weight 1 hunter2")},
		{Keepalived, "values that are wrong", keepalivedService("delay_loop \"token=hunter2\"", "TCP_CHECK {\nretry hunter2\nconnect_port hunter2\nbindto hunter2\n}")},
		{Keepalived, "shadow in a group", "virtual_server_group g {\nroot:$6$hunter2:19000:0:99999:7:::\n}\n" + keepalivedService("", "") + "virtual_server group g {\n}\n"},
		{Keepalived, "words in a group", "virtual_server_group g {\nhunter2\nhunter2 hunter2\nhunter2 hunter2 hunter2\n10.2.1.10-hunter2 80\n10.2.1.10 hunter2\n10.2.1.10 80-hunter2\n10.2.1.10 80 hunter2\nfwmark hunter2\n}\n" +
			keepalivedService("", "") + "virtual_server group g {\n}\nvirtual_server group hunter2 {\n}\n"},
		{Keepalived, "addresses that are wrong", keepalivedService("sorry_server hunter2 hunter2\nprotocol hunter2\npersistence_granularity hunter2\nreal_server 10.2.1.11 hunter2 {\n}", "uthreshold hunter2\nlthreshold hunter2")},
		{Keepalived, "an open quote", keepalivedService("", `notify_up "/bin/x hunter2`)},

		{HAProxy, "stats auth", haproxyService(" stats enable\n stats auth admin:hunter2")},
		{HAProxy, "Authorization", haproxyService(" option httpchk\n http-check send meth GET uri / hdr Authorization \"Bearer hunter2\"")},
		{HAProxy, "X-Auth-Token", haproxyService(" option httpchk\n http-check send hdr X-Auth-Token hunter2")},
		{HAProxy, "Cookie", haproxyService(" option httpchk\n http-check send hdr Cookie sid=hunter2")},
		{HAProxy, "an unknown header", haproxyService(" option httpchk\n http-check send hdr X-Vault hunter2")},
		{HAProxy, "a header of old", haproxyService(` option httpchk GET / HTTP/1.0\r\nAuthorization:\ Basic\ hunter2`)},
		{HAProxy, "body", haproxyService(" option httpchk\n http-check send meth POST body password=hunter2")},
		{HAProxy, "a user in a URL", haproxyService(" option httpchk GET http://admin:hunter2@10.2.1.10/")},
		{HAProxy, "a key in a query", haproxyService(" option httpchk GET /x?key=hunter2")},
		{HAProxy, "a session in a path", haproxyService(" option httpchk GET /x;jsessionid=hunter2")},
		{HAProxy, "redis AUTH", haproxyService(` option tcp-check` + "\n" + ` tcp-check send AUTH\ hunter2\r\n` + "\n tcp-check expect string +OK")},
		{HAProxy, "redis AUTH in binary", haproxyService(" option tcp-check\n tcp-check send-binary " + hex.EncodeToString([]byte(resp)))},
		{HAProxy, "smtp AUTH", haproxyService(` option tcp-check` + "\n" + ` tcp-check send AUTH\ PLAIN\ hunter2\r\n`)},
		{HAProxy, "PASS", haproxyService(` option tcp-check` + "\n" + ` tcp-check send USER\ me\r\n` + "\n" + ` tcp-check send PASS\ hunter2\r\n`)},
		{HAProxy, "steps behind", haproxyService(" option tcp-check\n tcp-check expect string x\n tcp-check send hunter2\n tcp-check expect string hunter2")},
		{HAProxy, "rules that are not known", haproxyService(" option tcp-check\n tcp-check send-lf hunter2\n tcp-check set-var(proc.x) str(hunter2)\n http-check foo hunter2")},
		{HAProxy, "mysql-check", haproxyService(" option mysql-check user hunter2")},
		{HAProxy, "agent-send", haproxyService(" server b 10.2.1.11:80 check agent-check agent-send hunter2 agent-port 1")},
		{HAProxy, "options of a server", haproxyService(" server b 10.2.1.11:80 check cookie hunter2 crt /etc/hunter2 sni str(hunter2) socks4 hunter2 hunter2 hunter2")},
		{HAProxy, "options of a bind", "listen web\n bind 203.0.113.1:80 name hunter2 crt /etc/hunter2.pem tls-ticket-keys hunter2 hunter2\n server a 10.2.1.10:80\n"},
		{HAProxy, "addresses that are wrong", "listen web\n bind hunter2:80\n bind 203.0.113.1:hunter2\n bind 203.0.113.1:80\n server a hunter2\n server b 10.2.1.10:hunter2\n server c ${hunter2}\n server d 10.2.1.10:80 weight hunter2\n server e 10.2.1.10:80 maxconn hunter2\n"},
		{HAProxy, "resolvers", "resolvers d\n nameserver hunter2 hunter2:53\n nameserver b\n hold nx hunter2\n timeout\n hunter2=x\n" +
			haproxyService(" server-template s hunter2 a.example.net\n server-template s 5 hunter2\n"+
				" server s a.example.net:80 resolvers hunter2 init-addr hunter2 resolve-prefer hunter2 resolve-opts hunter2")},
		{HAProxy, "names that are wrong", "defaults from hunter2\n"},
		{HAProxy, "a backend that is not there", "frontend f\n mode tcp\n bind 203.0.113.1:80\n default_backend hunter2\n"},
		{HAProxy, "userlist", "userlist u\n user admin insecure-password hunter2\n user b password $5$hunter2\n" + haproxyService("")},
		{HAProxy, "environment", "global\n setenv PASS hunter2\n presetenv TOKEN hunter2\n" + haproxyService("")},
		{HAProxy, "rules", haproxyService(" acl ok req.hdr(Authorization) hunter2\n http-request set-header X-Token hunter2\n http-request auth realm hunter2\n tcp-request content set-var(x) str(hunter2)\n cookie hunter2 insert\n email-alert to hunter2\n unknown hunter2")},
		{HAProxy, "sections", "mailers m hunter2\n mailer x hunter2\nring r hunter2\nprogram p\n command curl -u a:hunter2\nbackend b hunter2\n" + haproxyService("")},
		{HAProxy, "use_backend", haproxyService(" use_backend %[str(hunter2)]\n balance hdr(hunter2)\n stick on str(hunter2)\n hash-type consistent hunter2 hunter2")},
		{HAProxy, "conditions", ".if streq(hunter2)\n.endif\n" + haproxyService("")},
		{HAProxy, "no section", "hunter2 x\n"},

		{LDirectord, "login", ldirectordService("checktype=negotiate\nservice=mysql\nlogin=\"hunter2\"\npasswd=\"hunter2\"\ndatabase=\"hunter2\"\nsecret=\"hunter2\"\nrequest=\"SELECT hunter2\"\nreceive=\"hunter2\"")},
		{LDirectord, "request", ldirectordService("request=\"x?token=hunter2\"")},
		{LDirectord, "request of a real server", "virtual=203.0.113.1:80\n\treal=10.2.1.10:80 masq 1 \"x?key=hunter2\", \"ok\"\n"},
		{LDirectord, "request elsewhere", ldirectordService("request=\"http://a:hunter2@x/\"")},
		{LDirectord, "simpletcp", ldirectordService(`service=simpletcp` + "\n" + `request="AUTH hunter2\n"`)},
		{LDirectord, "checkcommand", ldirectordService("checktype=external\ncheckcommand=\"/bin/check --password hunter2\"")},
		{LDirectord, "relative checkcommand", ldirectordService("checktype=external\ncheckcommand=\"check hunter2\"")},
		{LDirectord, "keys of the file", "smtp=hunter2\nemailalert=\"hunter2\"\ncallback=\"/bin/x hunter2\"\nexecute=\"x\"\npassword=hunter2\n" + ldirectordService("")},
		{LDirectord, "a virtual that is wrong", "virtual=hunter2\n"},
		{LDirectord, "a real server that is wrong", ldirectordService("real=10.2.1.11:hunter2 masq")},
		{LDirectord, "names", "execute=\"hunter2\"\nvirtual=www:hunter2\n" + ldirectordService("real=hunter2:80 masq\nnetmask=hunter2\nschedflags=a:hunter2")},
		{LDirectord, "persistent", ldirectordService("persistent=hunter2")},
		{LDirectord, "no key", ldirectordService("") + "root:$6$hunter2:19000\n"},
		{LDirectord, "bad values", ldirectordService("") + "checkinterval=hunter2\n"},
		{LDirectord, "fallback", ldirectordService("fallback=10.2.1.9:80 masq hunter2")},

		{IPVSAdm, "a shadow line", "-A -t 203.0.113.1:80\nroot:$6$hunter2:19000:\n"},
		{IPVSAdm, "an address that is wrong", "-A -t hunter2\n"},
		{IPVSAdm, "a mark that is wrong", "-A -f hunter2\n"},
		{IPVSAdm, "seconds that are wrong", "-A -t 203.0.113.1:80 -p hunter2\n"},
		{IPVSAdm, "a weight that is wrong", "-A -t 203.0.113.1:80\n-a -t 203.0.113.1:80 -r 10.2.1.10:80 -w hunter2\n"},
		{IPVSAdm, "an option", "-A -t 203.0.113.1:80 --password hunter2\n"},
		{IPVSAdm, "a comment", "# hunter2\n-A -t 203.0.113.1:80 -s rr\n-a -t 203.0.113.1:80 -r 10.2.1.10:80 -m\n"},

		{Kubernetes, "a Secret", plainService + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: hunter2}\n"},
		{Kubernetes, "a List", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: s, annotations: {last: hunter2}}, data: {k: hunter2}}\n"},
		{Kubernetes, "a kubeconfig", "apiVersion: v1\nkind: Config\nusers:\n- name: a\n  user: {token: hunter2, client-key-data: hunter2, password: hunter2}\n"},
		{Kubernetes, "a ConfigMap", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  x: |\n    password=hunter2\n"},
		{Kubernetes, "broken YAML", plainService + "---\nkind: Secret\nstringData: {password: hunter2\n"},
		{Kubernetes, "a wrong type", "apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {ports: \"password=hunter2\"}\n"},
		{Kubernetes, "values that are wrong", "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {clusterIP: 10.96.0.1, ports: [{port: 80}], trafficDistribution: hunter2}\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: web-1, labels: {kubernetes.io/service-name: web}}\naddressType: hunter2\n"},
		{Kubernetes, "an annotation", "apiVersion: v1\nkind: Service\nmetadata: {name: web, annotations: {token: hunter2}}\nspec: {clusterIP: 10.96.0.1, ports: [{port: 80}], trafficDistribution: \"token=hunter2\"}\n"},
	}
	for _, f := range forms {
		t.Run(string(f.format)+"/"+f.name, func(t *testing.T) {
			if !strings.Contains(f.text, "hunter2") && !strings.Contains(f.text, hex.EncodeToString([]byte("hunter2"))) {
				t.Fatal("there is no secret in it")
			}
			r, err := Read(f.format, File{Name: "f", Data: []byte(f.text)}, nil)
			all := r.Document()
			if err == nil {
				accepted(t, r)
			} else {
				all += err.Error()
			}
			for _, n := range r.Notes {
				all += n.String()
			}
			for _, form := range []string{"hunter2", hex.EncodeToString([]byte("hunter2"))} {
				if strings.Contains(all, form) {
					t.Errorf("%s:\n%s", form, all)
				}
			}
		})
	}
}

// A check without its secret judges no server that serves: it only connects.
func TestCheckWithoutItsSecret(t *testing.T) {
	for name, c := range map[string]struct {
		format     Format
		text, want string
	}{
		"header": {HAProxy, haproxyService(" option httpchk GET /x\n http-check send hdr X-Token t hdr Accept text/plain\n http-check expect status 200"), `{ type = "tcp", `},
		"query":  {HAProxy, haproxyService(" option httpchk GET /x?key=t"), `{ type = "tcp", `},
		"send":   {HAProxy, haproxyService(` option tcp-check` + "\n" + ` tcp-check send AUTH\ t\r\n` + "\n tcp-check expect string +OK"), `{ type = "tcp", `},
		"args":   {Keepalived, keepalivedService("", "MISC_CHECK {\nmisc_path \"/bin/check --token t\"\n}"), `{ type = "tcp", `},
	} {
		r, err := Read(c.format, File{Name: "f", Data: []byte(c.text)}, nil)
		if err != nil || !strings.Contains(r.Document(), "healthCheck = "+c.want) || !strings.Contains(fmt.Sprint(r.Notes), "import does not copy it") {
			t.Errorf("%s: %v\n%s", name, err, r.Document())
		}
	}
}
