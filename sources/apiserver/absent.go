//go:build noapiserver

package apiserver

import (
	"context"
	"errors"

	"github.com/svcproxy/svcproxy/sources"
)

// ErrAbsent is why New fails in a build without this source.
var ErrAbsent = errors.New("built without the API server source (tag noapiserver)")

// Built says whether this build has the source.
const Built = false

// Source is not part of this build.
type Source struct{}

// New returns ErrAbsent.
func New(Options) (*Source, error) { return nil, ErrAbsent }

// Check returns ErrAbsent.
func Check(Options) error { return ErrAbsent }

// Watch returns ErrAbsent.
func (*Source) Watch(context.Context, func(sources.Table, error)) error { return ErrAbsent }
