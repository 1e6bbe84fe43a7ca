package redact

import (
	"strings"
	"testing"
)

func TestHeader(t *testing.T) {
	for line, want := range map[string]bool{
		"Authorization: Bearer x": true, "X-Auth-Token: abc": true, "Cookie: session=1": true, "X-Api-Key: k": true, "X-Vault: swordfish": true,
		"Proxy-Authorization: Basic eA==": true, "X-Amz-Signature: 1": true, "Referer: https://x/?key=abc": true, "Referer: https://u:p@x/": true,
		"Accept: text/html": false, "User-Agent: keepalived-check/1.2.3": false, "X-Forwarded-Proto: https": false, "X-Check: yes": false, "X-Weight: 7": false,
		"X-From: 10.0.0.1": false, "Content-Type: application/json; charset=utf-8": false,
	} {
		name, value, _ := strings.Cut(line, ": ")
		if got := Header(name, value); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}

func TestTarget(t *testing.T) {
	for path, want := range map[string]bool{
		"/": false, "/healthz": false, "/health?full=1": false, "/status?format=json&verbose": false, "/api/v1/health": false, "/patroni/db-primary-01.example": false,
		"/?v=1.2.3": false, "/check?node=10.2.1.10": false,
		"/x?token=t": true, "/x?a=1&api_key=k": true, "/x?hunter2": true, "/x;jsessionid=1": true, "/x?id=a1b2c3": true, "//user:pw@host/": true,
		"/hooks/550e8400-e29b-41d4-a716-446655440000": true, "/x?q=%41%42": true, "http://admin:pw@10.2.1.10/x": true,
	} {
		if got := Target(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

func TestBytes(t *testing.T) {
	for text, want := range map[string]bool{
		"PING\r\n": false, "QUIT\r\n": false, "EHLO mail.example.org\r\n": false, "GET / HTTP/1.0\r\nHost: www\r\n\r\n": false, "\x00\x01\x02": false, "stats\r\n": false,
		"AUTH hunter2\r\n": true, "*2\r\n$4\r\nAUTH\r\n$7\r\nhunter2\r\n": true, "EHLO x\r\nAUTH LOGIN\r\n": true, "USER x\r\nPASS y\r\n": true,
		"a1 LOGIN u p\r\n": true, "GET /x?api_key=k HTTP/1.0\r\n\r\n": true, "GET / HTTP/1.0\r\nX-Auth-Token: k\r\n\r\n": true, "AGFkbWluAGh1bnRlcjI1\r\n": true,
		`{"password":"x"}`: true, "HELLO 3 AUTH default hunter2\r\n": true,
	} {
		if got := Bytes(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestArgs(t *testing.T) {
	for line, want := range map[string]bool{
		"": false, "10.2.1.10 80": false, "-H 10.2.1.10 -p 80": false, "-w 5,10 -c 20": false, "http://10.2.1.10:80/healthz": false, "-u /health": false,
		"--timeout 5 --host $SVCPROXY_ADDRESS -p $SVCPROXY_PORT": false, "-port 80": false, "check db-primary-01": false, "--interval=5": false,
		"-phunter2": true, "-u admin:hunter2": true, "--password hunter2": true, "--password=hunter2": true, "PGPASSWORD=x": true, "-a hunter2": true,
		"--token t": true, "-H X-Auth-Token:k": true, "https://x/?key=k": true, "https://u:p@x/": true, "sk-live-51Habcdefgh": true, "-U user%pw": true, "-b sid=1": true,
		"-pass x": true,
	} {
		if got := Args(strings.Fields(line)); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}

func FuzzParts(f *testing.F) {
	f.Add("Authorization: Bearer x")
	f.Add("AUTH hunter2\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		name, value, _ := strings.Cut(text, ":")
		Header(name, value)
		Target(text)
		Bytes(text)
		Args(strings.Fields(text))
		if again := Text(Text(text)); len(again) > 8*len(text)+64 {
			t.Errorf("%d bytes of %d", len(again), len(text))
		}
	})
}
