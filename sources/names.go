package sources

import "strings"

// DefaultNamespace is the namespace of a service that names none.
const DefaultNamespace = "default"

// The names of sources, in the order in which they are merged.
const (
	Static    = "static"    // the services of svcproxy.toml itself
	Files     = "file"      // services files
	Manifest  = "manifest"  // files with Kubernetes objects, which only commands read
	APIServer = "apiserver" // no reload reads it
)

// FullName is "namespace/name". It identifies a service: in comparisons, in files that svcproxy keeps, and in the
// names of kube-proxy's chains and their comments.
func (s Service) FullName() string { return s.Namespace + "/" + s.Name }

// DisplayName is what a service is called in texts, JSON, metrics and the log: "namespace/name", or "name" for a
// service of the default namespace that does not come from Kubernetes. It depends on this service alone, so that a
// label of a metric stays the same when other services come and go.
func (s *Service) DisplayName() string { return displayName(s.Origin.Source, s.FullName()) }

// DisplayName is as Service's.
func (c Change) DisplayName() string { return displayName(c.Source, c.FullName()) }

// DisplayName is as Service's. It is "" if the problem is not about one service.
func (p Problem) DisplayName() string { return displayName(p.Origin.Source, p.Service) }

// DisplayName is as Service's, of the service with a full name. One that is not in the table counts as of a file.
func (t Table) DisplayName(full string) string {
	namespace, name, _ := strings.Cut(full, "/")
	s, _ := t.Lookup(namespace, name)
	return displayName(s.Origin.Source, full)
}

// displayName drops the default namespace, except where a source has namespaces: Kubernetes' objects.
func displayName(source, full string) string {
	if source == APIServer || source == Manifest {
		return full
	}
	return strings.TrimPrefix(full, DefaultNamespace+"/")
}

// FullName returns the full name for a display name: NAME is default/NAME.
func FullName(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return DefaultNamespace + "/" + name
}

// SameName reports whether two names can be of one service: "web" and "default/web" are.
func SameName(a, b string) bool { return a == b || FullName(a) == FullName(b) }
