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

// OutageError is why nothing comes from the API server now: the table emitted last stays.
type OutageError struct {
	Reasons []string  // what a person can do something about, each once
	Since   time.Time // the oldest's begin
	Err     error     // what client-go said of one of them
}

// Error is the reasons.
func (e *OutageError) Error() string { return strings.Join(e.Reasons, "; ") }

// Unwrap is client-go's error.
func (e *OutageError) Unwrap() error { return e.Err }

// outage is why one kind of object cannot be read. Its reason stays the same while its cause does, so
// that it is said once, not at each attempt.
type outage struct {
	resource string
	reason   string
	err      error
	since    time.Time
	// watch: lists are answered, and watches are no good; then no answer ends it, only a watch that lasts.
	watch bool
}

// outages are those that there are, by resource.
type outages map[string]outage

// begin puts an outage in, or what is now known of one that goes on.
func (o outages) begin(now outage) {
	if old, there := o[now.resource]; there {
		now.since = old.since
	}
	o[now.resource] = now
}

// end takes an outage out, if there is one that an answer ends.
func (o outages) end(resource string) bool { return !o[resource].watch && o.endAll(resource) }

// endAll takes an outage out, if there is one.
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

// total says whether services and endpoints are both cut off, so that the table cannot change.
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

// problems says the same, in the same words, of an outage that is not total, beside a table.
func (o outages) problems() []sources.Problem {
	var all []sources.Problem
	for _, reason := range o.reasons() {
		all = append(all, sources.Problem{Message: reason})
	}
	return all
}

// reason says in a person's words why a request failed. What goes for all kinds does not name one, so
// that a lost API server is one line.
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
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired: // its text has the time
		return fmt.Sprintf("the certificate of %s has expired, or is not valid yet", server)
	case errors.As(err, &untrusted):
		return fmt.Sprintf("the certificate of %s is not trusted: %v: see certificate-authority in the kubeconfig", server, innermost(err))
	case errors.As(err, &remote) && remote.Op == "remote error":
		return fmt.Sprintf("%s refuses the client certificate: %v", server, innermost(err))
	case errors.As(err, &missing):
		return fmt.Sprintf("cannot read the credentials: %v", missing)
	case errors.As(err, &dns):
		return fmt.Sprintf("cannot reach %s: no address for %s", server, dns.Name)
	// However it shows: one outage is not to be said again in other words.
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.Is(err, syscall.ETIMEDOUT), errors.Is(err, errNoAnswer):
		return fmt.Sprintf("cannot reach %s: no answer", server)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), strings.Contains(err.Error(), "stream error"):
		return fmt.Sprintf("cannot reach %s: the connection was cut", server)
	}
	return fmt.Sprintf("cannot reach %s: %s", server, brief(innermost(err).Error()))
}

// refusal is the reason when there was an answer, with its code.
func refusal(resource, server string, err error, code int32, message string) string {
	switch code {
	case http.StatusForbidden:
		return fmt.Sprintf("%s: forbidden: %s: the account needs get, list and watch, see rbac.yaml", resource, brief(message))
	case http.StatusUnauthorized:
		return fmt.Sprintf("%s does not accept the credentials (401 Unauthorized): token or client certificate expired or not known there", server)
	case http.StatusTooManyRequests:
		return fmt.Sprintf("%s has too many requests (429)", server)
	case http.StatusNotFound:
		return fmt.Sprintf("%s: not found at %s: Kubernetes 1.21 or newer is needed", resource, server)
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
		return fmt.Sprintf("%s is not available (%d)", server, code)
	}
	return fmt.Sprintf("%s: %s answers %d: %s", resource, server, code, brief(err.Error()))
}

// brief is one line of a text that came from elsewhere, and not all of a long one.
func brief(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(text[:min(len(text), 2*most)]), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + " ..."
	}
	return text
}

// errNoAnswer is a connection that was cut, or timed out, before a watch was answered. client-go gives
// such a watch as one that is empty.
var errNoAnswer = errors.New("cut before an answer")

// innermost is an error's cause, without the addresses around it: the local port is another each time.
func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}
