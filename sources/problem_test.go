package sources

import "testing"

// What people read names the services files, and another source by its name.
func TestWords(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Complaint(Files, "/etc/svcproxy/services.toml:3: web: x"), "file /etc/svcproxy/services.toml:3: web: x"},
		{Complaint(Files, "too many open files"), "the services files: too many open files"},
		{Complaint(APIServer, "connection refused"), "source apiserver: connection refused"},
		{WordsFor(Files).Refused, "a services file is refused"},
		{WordsFor(APIServer).Refused, "source apiserver is refused"},
		{WordsFor(Files).Waiting, "not all services files are read yet"},
		{WordsFor(APIServer).Waiting, "source apiserver has not delivered yet"},
		{WordsFor(Files).Good, "the services files are good again"},
		{WordsFor(APIServer).Good, "source apiserver is good again"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
