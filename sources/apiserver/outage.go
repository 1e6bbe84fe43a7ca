//go:build !noapiserver

package apiserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/svcproxy/svcproxy/sources"
)

// OutageError is why nothing can be read from the API server. The last table stays.
type OutageError struct {
	Reasons []string  // for an operator, each once
	Since   time.Time // when the first outage began
	Err     error     // client-go's error of one of them
}

// Error has all reasons.
func (e *OutageError) Error() string { return strings.Join(e.Reasons, "; ") }

// Unwrap is client-go's error.
func (e *OutageError) Unwrap() error { return e.Err }

// outage is why one kind of object cannot be read. The reason stays the same as long as the cause, so that it is
// reported once and not at each attempt.
type outage struct {
	resource string
	reason   string
	err      error
	since    time.Time
	// watch: lists work and watches do not. Then only a watch that lasts ends the outage.
	watch bool
}

// outages are the present outages by resource.
type outages map[string]outage

// begin adds an outage, or updates one that goes on.
func (o outages) begin(now outage) {
	if old, there := o[now.resource]; there {
		now.since = old.since
	}
	o[now.resource] = now
}

// end removes an outage that an answer ends, and says whether there was one.
func (o outages) end(resource string) bool { return !o[resource].watch && o.endAll(resource) }

// endAll removes any outage, and says whether there was one.
func (o outages) endAll(resource string) bool {
	_, there := o[resource]
	delete(o, resource)
	return there
}

func (o outages) clone() outages { return maps.Clone(o) }

func (o outages) reasons() []string {
	var all []string
	for _, resource := range slices.Sorted(maps.Keys(o)) {
		if r := o[resource].reason; !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	return all
}

// total says whether neither services nor endpoints can be read, so that the table cannot change.
func (o outages) total() bool {
	out := func(resource string) bool {
		outage, there := o[resource]
		return there && !outage.watch
	}
	return out("services") && out("endpointslices")
}

// error is nil without an outage.
func (o outages) error() error {
	if len(o) == 0 {
		return nil
	}
	e := &OutageError{Reasons: o.reasons()}
	for _, resource := range slices.Sorted(maps.Keys(o)) {
		if one := o[resource]; e.Since.IsZero() || one.since.Before(e.Since) {
			e.Since, e.Err = one.since, one.err
		}
	}
	return e
}

// problems are the reasons of a partial outage, for the error that comes with a table.
func (o outages) problems() []sources.Problem {
	var all []sources.Problem
	for _, reason := range o.reasons() {
		all = append(all, sources.Problem{Message: reason})
	}
	return all
}

// reason says why a request failed, for an operator. A cause that concerns all kinds does not name one, so that the
// loss of an API server is one line.
func reason(resource, server string, err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return refusal(resource, server, err, status.Status().Code, status.Status().Message)
	}
	var (
		excess    *excessError
		denied    *credentialError
		untrusted *tls.CertificateVerificationError
		invalid   x509.CertificateInvalidError
		remote    *net.OpError
		dns       *net.DNSError
		missing   *os.PathError
	)
	switch {
	case errors.As(err, &excess):
		return fmt.Sprintf("%s: %s: %v: not read further", resource, server, excess)
	case errors.As(err, &denied):
		return brief(denied.Error())
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired: // its own text changes with the time
		return fmt.Sprintf("the certificate of %s has expired, or is not valid yet", server)
	case errors.As(err, &untrusted):
		return fmt.Sprintf("the certificate of %s is not trusted: %v: see certificate-authority in the kubeconfig", server,
			innermost(err))
	case errors.As(err, &remote) && remote.Op == "remote error":
		return fmt.Sprintf("%s refuses the client certificate: %v", server, innermost(err))
	case errors.As(err, &missing):
		return fmt.Sprintf("cannot read the credentials: %v", missing)
	case errors.As(err, &dns):
		return fmt.Sprintf("cannot reach %s: no address for %s", server, dns.Name)
	// One text for all forms of a timeout, so that one outage is reported once.
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.Is(err, syscall.ETIMEDOUT), errors.Is(err, errNoAnswer):
		return fmt.Sprintf("cannot reach %s: no answer", server)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), strings.Contains(err.Error(), "stream error"):
		return fmt.Sprintf("cannot reach %s: the connection was cut", server)
	}
	return fmt.Sprintf("cannot reach %s: %s", server, brief(innermost(err).Error()))
}

// refusal is the reason if the API server answered with an error code.
func refusal(resource, server string, err error, code int32, message string) string {
	switch code {
	case http.StatusForbidden:
		return fmt.Sprintf("%s: forbidden: %s: the account needs get, list and watch, see rbac.yaml", resource,
			brief(message))
	case http.StatusUnauthorized:
		return fmt.Sprintf("%s does not accept the credentials (401 Unauthorized): token or client certificate expired or "+
			"not known there", server)
	case http.StatusTooManyRequests:
		return fmt.Sprintf("%s has too many requests (429)", server)
	case http.StatusNotFound:
		return fmt.Sprintf("%s: not found at %s: Kubernetes 1.21 or newer is needed", resource, server)
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
		return fmt.Sprintf("%s is not available (%d)", server, code)
	}
	return fmt.Sprintf("%s: %s answers %d: %s", resource, server, code, brief(err.Error()))
}

// brief is a foreign text as one line of at most 300 bytes.
func brief(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(text[:min(len(text), 2*most)]), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + " ..."
	}
	return text
}

// errNoAnswer says that a connection was cut, or timed out, before a watch was answered. client-go returns an empty
// watch for it.
var errNoAnswer = errors.New("cut before an answer")

// innermost is the innermost error. The outer ones have the local port, which changes each time.
func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}
