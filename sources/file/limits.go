package file

import (
	"slices"
	"strconv"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// limits are maxConnections and resumeConnections as given; nil if absent.
type limits struct{ most, resume *uint32 }

// connections is a number of connections.
var connections = fields.Type[uint32]{
	Kind: fields.KindInteger, Min: 0, Max: sources.MostConnections,
	Read: func(n node) (uint32, error) {
		i, err := number.Read(n)
		return uint32(i), err
	},
}

var number = fields.Int(0, sources.MostConnections)

// or returns an endpoint's limits, or its service's. One that has its own maxConnections takes neither from
// the service.
func (l limits) or(service limits) (most, resume uint32) {
	if l.most == nil {
		l.most = service.most
		if l.resume == nil {
			l.resume = service.resume
		}
	}
	if l.most != nil {
		most = *l.most
	}
	if l.resume != nil {
		resume = *l.resume
	}
	return most, resume
}

// sameLimits reports whether all endpoints have the same limit, so that it can be written once.
func sameLimits(all []sources.Endpoint) bool {
	return len(all) > 0 && all[0].MaxConnections != 0 && !slices.ContainsFunc(all, func(e sources.Endpoint) bool {
		return e.MaxConnections != all[0].MaxConnections || e.ResumeConnections != all[0].ResumeConnections
	})
}

// encodeLimits writes the limits of an endpoint that are not 0.
func encodeLimits(key func(name, value string), e *sources.Endpoint) {
	for _, l := range []struct {
		name string
		n    uint32
	}{{"maxConnections", e.MaxConnections}, {"resumeConnections", e.ResumeConnections}} {
		if l.n != 0 {
			key(l.name, strconv.FormatUint(uint64(l.n), 10))
		}
	}
}
