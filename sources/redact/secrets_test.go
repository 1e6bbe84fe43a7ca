package redact

import "testing"

func TestSecrets(t *testing.T) {
	var s Secrets
	s.Know("Bearer swordfish", "a\"b\"c", "abc", "Authorization: Bearer hunter2\nX-Key: opensesame", "--pass\x00marlin\x00-v")
	for in, want := range map[string]string{
		"header swordfish and Bearer swordfish": "header <left out> and <left out>",
		`{"x":"a\"b\"c"}`:                       `{"x":"<left out>"}`,
		"abc":                                   "abc",
		"headers hunter2, opensesame":           "headers <left out>, <left out>",
		`{"args":["--pass","marlin","-v"]}`:     `{"args":["<left out>","<left out>","-v"]}`,
		"GET https://me:pw@host/":               "GET https://<left out>@host/",
		"Authorization: Basic YWJjOmRlZg==":     "Authorization: <left out> <left out>",
		`{"clientToken": "x\"y", "port": 1}`:    `{"clientToken": "<left out>", "port": 1}`,
		"password=x y":                          "password=<left out> y",
		"client-key-data: QUJD\nserver: x":      "client-key-data: <left out>\nserver: x",
		"--token abc --v 3":                     "--token <left out> --v 3",
		"eyJhbGciOi.eyJzdWIi.c2ln rest":         "<left out> rest",
		"-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\ny": "<left out>\ny",
		"-A -t 10.96.0.1:80 -s rr":                                     "-A -t 10.96.0.1:80 -s rr",
	} {
		if got := s.Redact(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
