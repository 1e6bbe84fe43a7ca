package proxy

// WithoutBackends returns the names of the services that should be served and
// have, for one of their ports, no backend that takes new connections, sorted.
func (s *Snapshot) WithoutBackends() []string {
	if s == nil || s.Frontends == nil {
		return nil
	}
	return s.Frontends.WithoutBackends()
}
