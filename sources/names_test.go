package sources

import "testing"

func TestDisplayName(t *testing.T) {
	for _, c := range []struct{ source, namespace, want string }{
		{"file", "default", "web"}, {"file", "shop", "shop/web"}, {"", "default", "web"}, {"keepalived", "default", "web"},
		{"apiserver", "default", "default/web"}, {"apiserver", "shop", "shop/web"}, {"manifest", "default", "default/web"},
	} {
		s := Service{Namespace: c.namespace, Name: "web", Origin: Origin{Source: c.source}}
		of := []string{
			s.DisplayName(), Problem{Service: s.FullName(), Origin: s.Origin}.DisplayName(),
			Table{Services: ServicesOf(s)}.DisplayName(s.FullName()), Compare(Table{}, Table{Services: ServicesOf(s)}).Changes[0].DisplayName(),
			Compare(Table{Services: ServicesOf(s)}, Table{}).Changes[0].DisplayName(),
		}
		for _, got := range of {
			if got != c.want {
				t.Errorf("%s, %s: names %q, want %q", c.source, s.FullName(), of, c.want)
				break
			}
		}
		if got := FullName(c.want); got != s.FullName() {
			t.Errorf("FullName(%q) is %q", c.want, got)
		}
	}
	if got := (Table{}).DisplayName("default/gone"); got != "gone" {
		t.Errorf("a service that no table has is %q", got)
	}
	if got := (Table{}).DisplayName(""); got != "" {
		t.Errorf("no service is %q", got)
	}
}

func TestSameName(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"web", "web", true}, {"web", "default/web", true}, {"default/web", "web", true}, {"shop/web", "shop/web", true},
		{"web", "shop/web", false}, {"default/web", "shop/web", false}, {"web", "dns", false}, {"*", "web", false},
	} {
		if SameName(c.a, c.b) != c.want {
			t.Errorf("SameName(%q, %q) is %t", c.a, c.b, !c.want)
		}
	}
}
